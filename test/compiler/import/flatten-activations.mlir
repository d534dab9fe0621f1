// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-flatten-tokens | FileCheck %s

// CHECK: %[[X:.*]] = nn.embedding
// CHECK: %[[RELU:.*]] = nn.relu(%[[X]])
// CHECK: %[[GELU:.*]] = nn.gelu(%[[RELU]])
// CHECK-NOT: approximation
// CHECK-SAME: : (
// CHECK: %[[TANH_FORM:.*]] = nn.gelu(%[[GELU]]) {approximation = 1 : i64}
// CHECK: %[[CAP:.*]] = nn.softcap(%[[TANH_FORM]]) {softcap = 3.000000e+00 : f32}
// CHECK: %[[TANH:.*]] = nn.softcap(%[[CAP]]) {softcap = 1.000000e+00 : f32}
// CHECK: %[[CLIP:.*]] = nn.clamp(%[[TANH]]) {lower = -2.000000e+00 : f32}
// CHECK: %[[SILU:.*]] = nn.silu(%[[CLIP]])
// x σ(2 x) = silu(2 x) / 2.
// CHECK: %[[TWICE:.*]] = nn.scale(%[[SILU]]) {alpha = 2.000000e+00 : f32}
// CHECK: %[[QUICK:.*]] = nn.silu(%[[TWICE]])
// CHECK: nn.scale(%[[QUICK]]) {alpha = 5.000000e-01 : f32}
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Relu"(%0) : (!x) -> !x
  %2 = nn.onnx "Gelu"(%1) : (!x) -> !x
  %3 = nn.onnx "Gelu"(%2) {approximate = "tanh"} : (!x) -> !x
  %4 = nn.onnx "Softcap"(%3) {softcap = 3.0 : f32} : (!x) -> !x
  %5 = nn.onnx "Tanh"(%4) : (!x) -> !x
  %6 = nn.onnx "Clip"(%5) {lower = -2.0 : f32} : (!x) -> !x
  %7 = nn.onnx "Swish"(%6) : (!x) -> !x
  %8 = nn.onnx "Swish"(%7) {factor = 2.0 : f32} : (!x) -> !x
  %9 = nn.onnx "Linear"(%8, %table) : (!x, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %9 : tensor<2x6x16xf32>
}
