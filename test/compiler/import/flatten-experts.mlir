// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-flatten-tokens | FileCheck %s

// Experts as gpt-oss has them: [E,in,out], with biases, every second output a gate, and clamps.
// CHECK: nn.parameter @up : tensor<12x8xf32> {shape = array<i64: 3, 8, 4>, transposed}
// CHECK: nn.parameter @bias : tensor<12xf32> {shape = array<i64: 3, 4>}
// CHECK: %[[W:.*]], %[[I:.*]] = nn.route
// CHECK: %[[B:.*]] = nn.read_parameter @bias : tensor<12xf32>
// CHECK: %[[Y:.*]] = nn.expert_linear(%[[X:.*]], %{{.*}}, %[[I]] bias %[[B]]) : ({{.*}}) -> tensor<?x?x8xf32, #nn.tokens>
// CHECK: %[[PARTS:.*]]:2 = nn.split(%[[Y]]) {groups = 4 : i64} : {{.*}} -> (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
// CHECK: %[[GATE:.*]] = nn.clamp(%[[PARTS]]#0) {upper = 7.000000e+00 : f32}
// CHECK: %[[UP:.*]] = nn.clamp(%[[PARTS]]#1) {lower = -7.000000e+00 : f32, upper = 7.000000e+00 : f32}
// CHECK: %[[SCALED:.*]] = nn.scale(%[[GATE]]) {alpha = 2.000000e+00 : f32}
// CHECK: %[[SHIFTED:.*]] = nn.scale(%[[UP]]) {alpha = 5.000000e-01 : f32, shift = 5.000000e-01 : f32}
// CHECK: %[[H:.*]] = nn.gated(%[[SCALED]], %[[SHIFTED]]) {activation = "silu"}
// CHECK: nn.expert_linear(%[[H]], %{{.*}}, %[[I]]) : (tensor<?x?x4xf32, #nn.tokens>, tensor<24x2xf32>
!ids = tensor<2x6xi64>
!x = tensor<12x8xf32>
!i = tensor<12x2xi64>
!w = tensor<12x2xf32>
!part = tensor<12x2x2xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @router : tensor<3x8xf32>
nn.parameter @up : tensor<3x8x4xf32>
nn.parameter @bias : tensor<3x4xf32>
nn.parameter @down : tensor<3x8x2xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %one = nn.constant dense<1.0> : tensor<f32> : tensor<f32>
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %router = nn.read_parameter @router : tensor<3x8xf32>
  %rows = nn.onnx "Reshape"(%ids) : (!ids) -> tensor<12xi64>
  %x = nn.onnx "Gather"(%table, %rows) {axis = 0 : i64} : (tensor<16x8xf32>, tensor<12xi64>) -> !x
  %logits = nn.onnx "Linear"(%x, %router) {transposed = false} : (!x, tensor<3x8xf32>) -> tensor<12x3xf32>
  %weights, %chosen = nn.onnx "Route"(%logits) {score = "softmax_of_chosen", scale = 1.0 : f32} : (tensor<12x3xf32>) -> (!w, !i)
  %column = nn.onnx "Reshape"(%x) : (!x) -> tensor<12x1x8x1xf32>
  %all = nn.read_parameter @up : tensor<3x8x4xf32>
  %bias = nn.read_parameter @bias : tensor<3x4xf32>
  %0 = nn.onnx "ExpertLinear"(%column, %all, %chosen, %bias) {transposed = true}
    : (tensor<12x1x8x1xf32>, tensor<3x8x4xf32>, !i, tensor<3x4xf32>) -> tensor<12x2x4x1xf32>
  %1 = nn.onnx "Reshape"(%0) : (tensor<12x2x4x1xf32>) -> tensor<12x2x4xf32>
  %gate = nn.onnx "Slice"(%1) {axis = 2 : i64, start = 0 : i64, step = 2 : i64} : (tensor<12x2x4xf32>) -> !part
  %other = nn.onnx "Slice"(%1) {axis = 2 : i64, start = 1 : i64, step = 2 : i64} : (tensor<12x2x4xf32>) -> !part
  %2 = nn.onnx "Clip"(%gate) {upper = 7.0 : f32} : (!part) -> !part
  %3 = nn.onnx "Clip"(%other) {lower = -7.0 : f32, upper = 7.0 : f32} : (!part) -> !part
  %4 = nn.onnx "Add"(%3, %one) : (!part, tensor<f32>) -> !part
  %5 = nn.onnx "Gated"(%2, %4) {activation = "silu", factor = 2.0 : f32} : (!part, !part) -> !part
  %6 = nn.onnx "Reshape"(%5) : (!part) -> tensor<12x2x2x1xf32>
  %down = nn.read_parameter @down : tensor<3x8x2xf32>
  %7 = nn.onnx "ExpertLinear"(%6, %down, %chosen) {transposed = false}
    : (tensor<12x2x2x1xf32>, tensor<3x8x2xf32>, !i) -> tensor<12x2x8x1xf32>
  %8 = nn.onnx "Reshape"(%7) : (tensor<12x2x8x1xf32>) -> tensor<12x2x8xf32>
  %9 = nn.onnx "ExpertSum"(%8, %weights) : (tensor<12x2x8xf32>, !w) -> !x
  %10 = nn.onnx "Reshape"(%9) : (!x) -> tensor<2x6x8xf32>
  %11 = nn.onnx "Linear"(%10, %table) {transposed = false} : (tensor<2x6x8xf32>, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %11 : tensor<2x6x16xf32>
}

// -----

// A number of each expert is a linear layer of one column.
// CHECK: nn.parameter @scales : tensor<3x1xf32> {shape = array<i64: 3>}
// CHECK: %[[W:.*]], %[[I:.*]] = nn.route
// CHECK: %[[S:.*]] = nn.read_parameter @scales : tensor<3x1xf32>
// CHECK: %[[C:.*]] = nn.expert_linear(%[[W]], %[[S]], %[[I]]) : {{.*}} -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: nn.expert_sum(%{{.*}}, %[[C]])
!ids = tensor<2x6xi64>
!x = tensor<12x8xf32>
!i = tensor<12x2xi64>
!w = tensor<12x2xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @router : tensor<3x8xf32>
nn.parameter @down : tensor<3x8x8xf32>
nn.parameter @scales : tensor<3xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %router = nn.read_parameter @router : tensor<3x8xf32>
  %rows = nn.onnx "Reshape"(%ids) : (!ids) -> tensor<12xi64>
  %x = nn.onnx "Gather"(%table, %rows) {axis = 0 : i64} : (tensor<16x8xf32>, tensor<12xi64>) -> !x
  %logits = nn.onnx "Linear"(%x, %router) {transposed = false} : (!x, tensor<3x8xf32>) -> tensor<12x3xf32>
  %weights, %chosen = nn.onnx "Route"(%logits) {score = "softmax", scale = 1.0 : f32} : (tensor<12x3xf32>) -> (!w, !i)
  %column = nn.onnx "Reshape"(%x) : (!x) -> tensor<12x1x8x1xf32>
  %down = nn.read_parameter @down : tensor<3x8x8xf32>
  %0 = nn.onnx "ExpertLinear"(%column, %down, %chosen) {transposed = false}
    : (tensor<12x1x8x1xf32>, tensor<3x8x8xf32>, !i) -> tensor<12x2x8x1xf32>
  %1 = nn.onnx "Reshape"(%0) : (tensor<12x2x8x1xf32>) -> tensor<12x2x8xf32>
  %scales = nn.read_parameter @scales : tensor<3xf32>
  %2 = nn.onnx "ExpertScale"(%weights, %scales, %chosen) : (!w, tensor<3xf32>, !i) -> !w
  %3 = nn.onnx "ExpertSum"(%1, %2) : (tensor<12x2x8xf32>, !w) -> !x
  %4 = nn.onnx "Reshape"(%3) : (!x) -> tensor<2x6x8xf32>
  %5 = nn.onnx "Linear"(%4, %table) {transposed = false} : (tensor<2x6x8xf32>, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %5 : tensor<2x6x16xf32>
}
