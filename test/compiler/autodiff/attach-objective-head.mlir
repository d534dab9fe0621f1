// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-attach-objective | FileCheck %s

// A bias and a softcap go into the log-probabilities; the logits keep theirs.
// CHECK: func.func private @head.log_probabilities(
// CHECK-SAME: %[[B:[^ ]*]]: tensor<50xf32> {train.port = #train.port<parameter, "bias">}
// CHECK-NEXT: nn.log_probability(%{{.*}}, %{{.*}}, %{{[^ ]*}} bias %[[B]]) {softcap = 3.000000e+01 : f32}
// CHECK: func.func private @head.logits(
// CHECK: %[[Y:.*]] = nn.linear(
// CHECK-NEXT: nn.softcap(%[[Y]]) {softcap = 3.000000e+01 : f32}
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x50xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @bias : tensor<50xf32>
train.block head @head parameters ("table" = @table, "bias" = @bias) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %b: tensor<50xf32> {train.port = #train.port<parameter, "bias">}) -> (!l {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w bias %b) : (!x, tensor<50x4xf32>, tensor<50xf32>) -> !l
  %1 = nn.softcap(%0) {softcap = 30.0 : f32} : (!l) -> !l
  return %1 : !l
}
