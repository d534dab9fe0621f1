// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-differentiate-blocks --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// A layer with an adapter, bound twice: one backward function serves both blocks. Of the forward half only what the
// backward half reads is computed again, so the last linear layer and its low-rank half are not. The frozen weights
// have no gradient, and nothing is computed for them.
// CHECK: train.block layer @layers.0 {{.*}} {backward = @layer.backward, forward = @layer.forward}
// CHECK: train.block layer @layers.1 {{.*}} {backward = @layer.backward, forward = @layer.forward}
// CHECK-LABEL: func.func private @layer.forward
// CHECK-LABEL: func.func private @layer.backward
// CHECK-SAME: (%[[X:[^ ]*]]: tensor<?x?x4xf32> {train.role = "activation"}
// CHECK-SAME: %[[DY:[^ ]*]]: tensor<?x?x4xf32> {train.role = "cotangent"}
// CHECK-SAME: %[[UP:[^ ]*]]: tensor<6x4xf32> {train.parameter = 0
// CHECK-SAME: %[[DOWN:[^ ]*]]: tensor<4x6xf32> {train.parameter = 1
// CHECK-SAME: %[[A:[^ ]*]]: tensor<2x6xf32> {train.parameter = 2
// CHECK-SAME: %[[B:[^ ]*]]: tensor<4x2xf32> {train.parameter = 3
// CHECK-SAME: -> (tensor<?x?x4xf32> {train.role = "cotangent"},
// CHECK-SAME:     tensor<2x6xf32> {train.parameter = 2 : i64, train.role = "gradient"},
// CHECK-SAME:     tensor<4x2xf32> {train.parameter = 3 : i64, train.role = "gradient"})
// CHECK-NEXT: %[[U:.*]] = nn.linear(%[[X]], %[[UP]]) : {{.*}} loc("up"("model.up"))
// CHECK-NEXT: %[[S:.*]] = nn.silu(%[[U]])
// CHECK-NEXT: %[[H:.*]] = nn.linear(%[[S]], %[[A]])
// CHECK-NEXT: %[[DS:.*]] = nn.linear_input_gradient(%[[DY]], %[[DOWN]]) : {{.*}} loc(fused<"gradient">["down"("model.down")])
// CHECK-NEXT: %[[DH:.*]] = nn.linear_input_gradient(%[[DY]], %[[B]]) {alpha = 4.000000e+00 : f32}
// CHECK-NEXT: %[[DB:.*]] = nn.linear_weight_gradient(%[[DY]], %[[H]]) {alpha = 4.000000e+00 : f32}
// CHECK-NEXT: %[[DS2:.*]] = nn.linear_input_gradient(%[[DH]], %[[A]])
// CHECK-NEXT: %[[DA:.*]] = nn.linear_weight_gradient(%[[DH]], %[[S]])
// Two readers of %s: the sum of what comes back from both.
// CHECK-NEXT: %[[SUM:.*]] = nn.add(%[[DS]], %[[DS2]])
// CHECK-NEXT: %[[DU:.*]] = nn.silu_gradient(%[[U]], %[[SUM]])
// CHECK-NEXT: %[[DX:.*]] = nn.linear_input_gradient(%[[DU]], %[[UP]])
// And of %x: the residual connection.
// CHECK-NEXT: %[[DX2:.*]] = nn.add(%[[DY]], %[[DX]])
// CHECK-NOT: nn.
// CHECK: return %[[DX2]], %[[DA]], %[[DB]]

// The objective gives the loss and the cotangent of the head's input; the loss alone is not computed beside it.
// CHECK-LABEL: func.func private @head.objective
// CHECK-SAME: -> (tensor<1x1xf32> {train.role = "loss"}, tensor<?x?x4xf32> {train.role = "cotangent"})
// CHECK-NEXT: %[[N:.*]] = nn.scale
// CHECK-NOT: nn.linear_cross_entropy(
// CHECK-NEXT: %[[LOSS:.*]], %[[DN:.*]] = nn.linear_cross_entropy_gradient(%[[N]],
// CHECK-NEXT: %[[DX:.*]] = nn.scale(%[[DN]])
// CHECK-NEXT: return %[[LOSS]], %[[DX]]
// CHECK: train.block head @head {{.*}}loss = @head.loss{{.*}}objective = @head.objective

// The embedding is frozen: no backward function.
// CHECK: train.block embed @embed parameters [@table] {forward = @embed.forward}
// CHECK-NOT: @embed.backward

!x = tensor<?x?x4xf32>
!h = tensor<?x?x6xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @up : tensor<6x4xf32>
nn.parameter @down : tensor<4x6xf32>
nn.parameter @A0 : tensor<2x6xf32> {trainable}
nn.parameter @B0 : tensor<4x2xf32> {trainable}
nn.parameter @A1 : tensor<2x6xf32> {trainable}
nn.parameter @B1 : tensor<4x2xf32> {trainable}
train.block layer @layers.0 parameters [@up, @down, @A0, @B0] {forward = @layer.forward}
train.block layer @layers.1 parameters [@up, @down, @A1, @B1] {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.role = "activation"},
    %up: tensor<6x4xf32> {train.parameter = 0 : i64, train.role = "parameter"},
    %down: tensor<4x6xf32> {train.parameter = 1 : i64, train.role = "parameter"},
    %a: tensor<2x6xf32> {train.parameter = 2 : i64, train.role = "parameter", train.trainable},
    %b: tensor<4x2xf32> {train.parameter = 3 : i64, train.role = "parameter", train.trainable}) -> (!x {train.role = "activation"}) {
  %u = nn.linear(%x, %up) : (!x, tensor<6x4xf32>) -> !h loc("up"("model.up"))
  %s = nn.silu(%u) : (!h) -> !h
  %h = nn.linear(%s, %a) : (!h, tensor<2x6xf32>) -> tensor<?x?x2xf32>
  %l = nn.linear(%h, %b) {alpha = 4.0 : f32} : (tensor<?x?x2xf32>, tensor<4x2xf32>) -> !x
  %d = nn.linear(%s, %down addend %l) : (!h, tensor<4x6xf32>, !x) -> !x loc("down"("model.down"))
  %y = nn.add(%x, %d) : (!x, !x) -> !x
  return %y : !x
}
func.func private @head.loss(%x: !x {train.role = "activation"}, %labels: tensor<?x?x1xi32> {train.role = "labels"},
    %scale: tensor<1x1xf32> {train.role = "objective_scale"},
    %w: tensor<50x4xf32> {train.parameter = 0 : i64, train.role = "parameter"}) -> (tensor<1x1xf32> {train.role = "loss"}) {
  %n = nn.scale(%x) {alpha = 2.0 : f32} : (!x) -> !x
  %loss = nn.linear_cross_entropy(%n, %w, %labels, %scale)
      : (!x, tensor<50x4xf32>, tensor<?x?x1xi32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  return %loss : tensor<1x1xf32>
}
train.block head @head parameters [@table] {loss = @head.loss}
train.block embed @embed parameters [@table] {forward = @embed.forward}
func.func private @embed.forward(%ids: tensor<?x?x1xi32> {train.role = "token_ids"},
    %w: tensor<50x4xf32> {train.parameter = 0 : i64, train.role = "parameter"}) -> (!x {train.role = "activation"}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32>, tensor<50x4xf32>) -> !x
  return %e : !x
}
