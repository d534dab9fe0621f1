// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-attach-objective | FileCheck %s

// An adapter of the logits becomes the log-probability's, and stays theirs in the logits.
// CHECK: func.func private @head.log_probabilities(%[[X:[^ ]*]]: {{.*}}, %[[LABELS:[^ ]*]]: tensor<?x?x1xi32, #nn.tokens>
// CHECK-SAME: %[[W:[^ ]*]]: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
// CHECK-SAME: %[[A:[^ ]*]]: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable},
// CHECK-SAME: %[[B:[^ ]*]]: tensor<50x2xf32> {train.port = #train.port<parameter, "b">, train.trainable})
// CHECK-NEXT: %[[LOW:.*]] = nn.linear(%[[X]], %[[A]])
// CHECK-NEXT: %[[LOGP:.*]], %[[ENTROPY:.*]] = nn.log_probability(%[[X]], %[[W]], %[[LABELS]] low %[[LOW]], %[[B]]) {low_alpha = 4.000000e+00 : f32}
// CHECK-NEXT: return %[[LOGP]], %[[ENTROPY]]
// CHECK: func.func private @head.logits(
// CHECK-COUNT-3: nn.linear(
!x = tensor<?x?x4xf32, #nn.tokens>
!t = tensor<?x?x2xf32, #nn.tokens>
!l = tensor<?x?x50xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @a : tensor<2x4xf32> {trainable}
nn.parameter @b : tensor<50x2xf32> {trainable}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %a: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable},
    %b: tensor<50x2xf32> {train.port = #train.port<parameter, "b">, train.trainable}) -> (!l {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %a) : (!x, tensor<2x4xf32>) -> !t
  %1 = nn.linear(%0, %b) {alpha = 4.0 : f32} : (!t, tensor<50x2xf32>) -> !l
  %2 = nn.linear(%x, %w addend %1) : (!x, tensor<50x4xf32>, !l) -> !l
  return %2 : !l
}
train.block head @head parameters ("table" = @table, "a" = @a, "b" = @b) programs {forward = @head.forward}
