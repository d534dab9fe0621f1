// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-tile-loss="rows=16 columns=32" | FileCheck %s

// A tile of the vocabulary has its part of the bias, and all kernels of logits know the cap.
// CHECK-LABEL: func.func private @head.objective(
// CHECK: train.loop weight_rows 32
// CHECK: %[[B:.*]] = train.slice %{{[^ ]*}}[%{{[^ ]*}}] : tensor<50xf32> -> tensor<?xf32>
// CHECK: nn.linear({{.*}} bias %[[B]])
// CHECK: nn.log_probability_tile({{.*}}) {softcap = 3.000000e+01 : f32}
// CHECK: nn.log_probability_from_tiles({{.*}}, softcap = 3.000000e+01 : f32}
// CHECK: train.loop weight_rows 32
// CHECK: nn.linear({{.*}} bias
// CHECK: nn.log_probability_logits_gradient({{.*}}, softcap = 3.000000e+01 : f32}
// Its gradient is added up tile by tile, beside the weight's.
// CHECK: train.loop weight_rows 32
// CHECK: %[[D:.*]] = nn.log_probability_logits_gradient
// CHECK: %[[E:.*]] = train.slice %[[ALL:[^ ]*]][%[[T:[^ ]*]]] : tensor<50xf32> -> tensor<?xf32>
// CHECK: %[[G:.*]] = nn.bias_gradient(%[[D]])
// CHECK: %[[NEW:.*]] = nn.add(%[[G]], %[[E]])
// CHECK: train.update %[[NEW]] into %[[ALL]][%[[T]]]
!x = tensor<?x?x4xf32, #nn.tokens>
!r = tensor<?x?x1xf32, #nn.tokens>
!i = tensor<?x?x1xi32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @bias : tensor<50xf32>
train.block head @head parameters ("table" = @table, "bias" = @bias) programs {objective = @head.objective}
func.func private @head.objective(%x: !x {train.port = #train.port<flow, "hidden">},
    %labels: !i {train.port = #train.port<batch, "labels">},
    %c: !r {train.port = #train.port<batch, "coefficients">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %b: tensor<50xf32> {train.port = #train.port<parameter, "bias">})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">},
        !x {train.port = #train.port<flow, "hidden.cotangent">}, tensor<50x4xf32> {train.port = #train.port<gradient, "table">},
        tensor<50xf32> {train.port = #train.port<gradient, "bias">}) {
  %0:3 = nn.log_probability_gradient(%x, %w, %labels, %c bias %b) {softcap = 30.0 : f32}
    : (!x, tensor<50x4xf32>, !i, !r, tensor<50xf32>) -> (!r, !r, !x)
  %1 = nn.log_probability_weight_gradient(%x, %w, %labels, %c bias %b) {softcap = 30.0 : f32}
    : (!x, tensor<50x4xf32>, !i, !r, tensor<50xf32>) -> tensor<50x4xf32>
  %2 = nn.log_probability_bias_gradient(%x, %w, %labels, %c bias %b) {softcap = 30.0 : f32}
    : (!x, tensor<50x4xf32>, !i, !r, tensor<50xf32>) -> tensor<50xf32>
  return %0#0, %0#1, %0#2, %1, %2 : !r, !r, !x, tensor<50x4xf32>, tensor<50xf32>
}
