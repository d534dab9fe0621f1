// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-differentiate-blocks --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// Layers of one function, of which all but the first have an adapter below them: one backward function serves these.
// Of the forward half only what the backward half reads is computed again, so the last linear layer and its low-rank
// half are not. The frozen weights have no gradient, and nothing is computed for them.
// CHECK: train.block layer @layers.0 {{.*}} programs {backward = @layer.backward.partial, forward = @layer.forward}
// CHECK: train.block layer @layers.1 {{.*}} programs {backward = @layer.backward, forward = @layer.forward}
// CHECK: train.block layer @layers.2 {{.*}} programs {backward = @layer.backward, forward = @layer.forward}
// CHECK-LABEL: func.func private @layer.forward
// CHECK-LABEL: func.func private @layer.backward
// CHECK-SAME: (%[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}
// CHECK-SAME: %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[UP:[^ ]*]]: tensor<6x4xf32> {train.port = #train.port<parameter, "up">
// CHECK-SAME: %[[DOWN:[^ ]*]]: tensor<4x6xf32> {train.port = #train.port<parameter, "down">
// CHECK-SAME: %[[A:[^ ]*]]: tensor<2x6xf32> {train.port = #train.port<parameter, "A0">
// CHECK-SAME: %[[B:[^ ]*]]: tensor<4x2xf32> {train.port = #train.port<parameter, "B0">
// CHECK-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">},
// CHECK-SAME:     tensor<2x6xf32> {train.port = #train.port<gradient, "A0">},
// CHECK-SAME:     tensor<4x2xf32> {train.port = #train.port<gradient, "B0">})
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
// CHECK-NOT: {{[^#]}}nn.
// CHECK: return %[[DX2]], %[[DA]], %[[DB]]

// Below the first nothing is trained: its backward gives no cotangent of its input, and computes nothing for one.
// CHECK-LABEL: func.func private @layer.backward.partial
// CHECK-SAME: -> (tensor<2x6xf32> {train.port = #train.port<gradient, "A0">},
// CHECK-SAME:     tensor<4x2xf32> {train.port = #train.port<gradient, "B0">})
// CHECK-NOT: nn.silu_gradient
// CHECK-NOT: nn.add
// CHECK-NOT: nn.linear_input_gradient(%{{.*}}, %arg2)
// CHECK: return %{{[^,]*}}, %{{[^,]*}} :

// The objective takes the cotangents of the log-probabilities, and gives these and the cotangent of the head's input.
// CHECK-LABEL: func.func private @head.objective
// CHECK-SAME: %[[C:[^ ]*]]: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "coefficients">}
// CHECK-SAME: -> (tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<result, "log_probabilities">},
// CHECK-SAME: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<result, "entropy">},
// CHECK-SAME: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">})
// CHECK-NEXT: %[[N:.*]] = nn.scale
// CHECK-NEXT: %[[LOGP:.*]], %[[ENTROPY:.*]] = nn.log_probability(%[[N]],
// CHECK-NEXT: %{{.*}}, %{{.*}}, %[[DN:.*]] = nn.log_probability_gradient(%[[N]], %{{.*}}, %{{.*}}, %[[C]])
// CHECK-NEXT: %[[DX:.*]] = nn.scale(%[[DN]])
// CHECK-NEXT: return %[[LOGP]], %[[ENTROPY]], %[[DX]]
// CHECK: train.block head @head {{.*}}log_probabilities = @head.log_probabilities{{.*}}objective = @head.objective

// The embedding is frozen: no backward function.
// CHECK: train.block embed @embed parameters ("table" = @table) programs {forward = @embed.forward}
// CHECK-NOT: @embed.backward

!r = tensor<?x?x1xf32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!h = tensor<?x?x6xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @up : tensor<6x4xf32>
nn.parameter @down : tensor<4x6xf32>
nn.parameter @A0 : tensor<2x6xf32> {trainable}
nn.parameter @B0 : tensor<4x2xf32> {trainable}
nn.parameter @A1 : tensor<2x6xf32> {trainable}
nn.parameter @B1 : tensor<4x2xf32> {trainable}
nn.parameter @A2 : tensor<2x6xf32> {trainable}
nn.parameter @B2 : tensor<4x2xf32> {trainable}
train.block layer @layers.0 parameters ("up" = @up, "down" = @down, "A0" = @A0, "B0" = @B0) programs {forward = @layer.forward}
train.block layer @layers.1 parameters ("up" = @up, "down" = @down, "A0" = @A1, "B0" = @B1) programs {forward = @layer.forward}
train.block layer @layers.2 parameters ("up" = @up, "down" = @down, "A0" = @A2, "B0" = @B2) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %up: tensor<6x4xf32> {train.port = #train.port<parameter, "up">},
    %down: tensor<4x6xf32> {train.port = #train.port<parameter, "down">},
    %a: tensor<2x6xf32> {train.port = #train.port<parameter, "A0">, train.trainable},
    %b: tensor<4x2xf32> {train.port = #train.port<parameter, "B0">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %u = nn.linear(%x, %up) : (!x, tensor<6x4xf32>) -> !h loc("up"("model.up"))
  %s = nn.silu(%u) : (!h) -> !h
  %h = nn.linear(%s, %a) : (!h, tensor<2x6xf32>) -> tensor<?x?x2xf32, #nn.tokens>
  %l = nn.linear(%h, %b) {alpha = 4.0 : f32} : (tensor<?x?x2xf32, #nn.tokens>, tensor<4x2xf32>) -> !x
  %d = nn.linear(%s, %down addend %l) : (!h, tensor<4x6xf32>, !x) -> !x loc("down"("model.down"))
  %y = nn.add(%x, %d) : (!x, !x) -> !x
  return %y : !x
}
func.func private @head.log_probabilities(%x: !x {train.port = #train.port<flow, "hidden">},
    %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">}) {
  %n = nn.scale(%x) {alpha = 2.0 : f32} : (!x) -> !x
  %logp, %entropy = nn.log_probability(%n, %w, %labels) : (!x, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>) -> (!r, !r)
  return %logp, %entropy : !r, !r
}
train.block head @head parameters ("table" = @table) programs {log_probabilities = @head.log_probabilities}
train.block embed @embed parameters ("table" = @table) programs {forward = @embed.forward}
func.func private @embed.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> !x
  return %e : !x
}
