// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-attach-objective | FileCheck %s

// The loss shares everything with the logits but the last linear layer.
// CHECK: func.func private @head.loss(%[[X:.*]]: tensor<?x?x4xf32> {train.role = "activation"},
// CHECK-SAME: %[[LABELS:[^ ]*]]: tensor<?x?x1xi32> {train.role = "labels"},
// CHECK-SAME: %[[SCALE:[^ ]*]]: tensor<1x1xf32> {train.role = "objective_scale"},
// CHECK-SAME: %[[N:[^ ]*]]: tensor<4xf32> {train.parameter = 0 : i64, train.role = "parameter"},
// CHECK-SAME: %[[W:[^ ]*]]: tensor<50x4xf32> {train.parameter = 1 : i64, train.role = "parameter"})
// CHECK-SAME: -> (tensor<1x1xf32> {train.role = "loss"})
// CHECK-NEXT: %[[NORM:.*]] = nn.rms_norm(%[[X]], %[[N]])
// CHECK-NEXT: %[[LOSS:.*]] = nn.linear_cross_entropy(%[[NORM]], %[[W]], %[[LABELS]], %[[SCALE]])
// CHECK-NEXT: return %[[LOSS]] : tensor<1x1xf32>
// CHECK: func.func private @head.logits(
// CHECK-SAME: -> (tensor<?x?x50xf32> {train.role = "logits"})
// CHECK: nn.linear(
// CHECK: train.block head @head parameters [@n, @table] {logits = @head.logits, loss = @head.loss}
// CHECK: train.block layer @layer parameters [] {forward = @layer.forward}
!x = tensor<?x?x4xf32>
nn.parameter @n : tensor<4xf32>
nn.parameter @table : tensor<50x4xf32>
func.func private @head.forward(%x: !x {train.role = "activation"},
    %n: tensor<4xf32> {train.parameter = 0 : i64, train.role = "parameter"},
    %w: tensor<50x4xf32> {train.parameter = 1 : i64, train.role = "parameter"}) -> (tensor<?x?x50xf32> {train.role = "logits"}) {
  %0 = nn.rms_norm(%x, %n) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32>
  return %1 : tensor<?x?x50xf32>
}
train.block head @head parameters [@n, @table] {forward = @head.forward}
train.block layer @layer parameters [] {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.role = "activation"}) -> (!x {train.role = "activation"}) {
  return %x : !x
}
