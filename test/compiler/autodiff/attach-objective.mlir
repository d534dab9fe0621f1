// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-attach-objective | FileCheck %s

// The log-probabilities share everything with the logits but the last linear layer.
// CHECK: func.func private @head.log_probabilities(%[[X:.*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
// CHECK-SAME: %[[LABELS:[^ ]*]]: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">},
// CHECK-SAME: %[[N:[^ ]*]]: tensor<4xf32> {train.port = #train.port<parameter, "n">},
// CHECK-SAME: %[[W:[^ ]*]]: tensor<50x4xf32> {train.port = #train.port<parameter, "table">})
// CHECK-SAME: -> (tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<result, "log_probabilities">},
// CHECK-SAME: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<result, "entropy">})
// CHECK-NEXT: %[[NORM:.*]] = nn.rms_norm(%[[X]], %[[N]])
// CHECK-NEXT: %[[LOGP:.*]], %[[ENTROPY:.*]] = nn.log_probability(%[[NORM]], %[[W]], %[[LABELS]])
// CHECK-NEXT: return %[[LOGP]], %[[ENTROPY]]
// CHECK: func.func private @head.logits(
// CHECK-SAME: -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">})
// CHECK: nn.linear(
// CHECK: train.block head @head parameters ("n" = @n, "table" = @table) programs {log_probabilities = @head.log_probabilities, logits = @head.logits}
// CHECK: train.block layer @layer parameters () programs {forward = @layer.forward}
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @n : tensor<4xf32>
nn.parameter @table : tensor<50x4xf32>
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %n: tensor<4xf32> {train.port = #train.port<parameter, "n">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.rms_norm(%x, %n) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %1 : tensor<?x?x50xf32, #nn.tokens>
}
train.block head @head parameters ("n" = @n, "table" = @table) programs {forward = @head.forward}
train.block layer @layer parameters () programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  return %x : !x
}
