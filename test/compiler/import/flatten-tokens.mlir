// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-flatten-tokens | FileCheck %s

// CHECK: nn.parameter @conv : tensor<24x8xf32> {transposed}
// CHECK-NOT: @unused
// CHECK: func.func @main(%[[IDS:.*]]: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x16xf32, #nn.tokens>
// CHECK: %[[TABLE:.*]] = nn.read_parameter @table
// CHECK: %[[X:.*]] = nn.embedding(%[[IDS]], %[[TABLE]])
// CHECK: %[[SCALED:.*]] = nn.scale(%[[X]]) {alpha = 3.000000e+00 : f32}
// CHECK: %[[QKV:.*]] = nn.linear(%[[SCALED]], %{{.*}}) : (tensor<?x?x8xf32, #nn.tokens>, tensor<24x8xf32>) -> tensor<?x?x24xf32, #nn.tokens>
// CHECK: %[[PARTS:.*]]:3 = nn.split(%[[QKV]])
// CHECK: %[[Q:.*]] = nn.rms_norm(%[[PARTS]]#0, %{{.*}}) {epsilon = {{.*}}} : (tensor<?x?x8xf32, #nn.tokens>, tensor<4xf32>)
// CHECK: %[[ROPE:.*]] = nn.rope(%[[Q]]) {frequencies = array<f32: 1.000000e+00>, head_dim = 4 : i64}
// CHECK: %[[O:.*]], %{{.*}} = nn.attention(%[[ROPE]], %[[PARTS]]#1, %[[PARTS]]#2) {heads = 2 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32}
// CHECK: %[[SUM:.*]] = nn.add(%[[SCALED]], %[[O]])
// CHECK: nn.linear(%[[SUM]], %[[TABLE]])
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!bthd = tensor<2x6x2x4xf32>
!heads = tensor<2x2x6x4xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @conv : tensor<8x24xf32>
nn.parameter @norm : tensor<4xf32>
nn.parameter @unused : tensor<4xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %conv = nn.read_parameter @conv : tensor<8x24xf32>
  %norm = nn.read_parameter @norm : tensor<4xf32>
  %three = nn.constant dense<3.0> : tensor<f32> : tensor<f32>
  %rows = nn.onnx "Reshape"(%ids) : (!ids) -> tensor<12xi64>
  %0 = nn.onnx "Gather"(%table, %rows) {axis = 0 : i64} : (tensor<16x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %1 = nn.onnx "Mul"(%three, %0) : (tensor<f32>, tensor<12x8xf32>) -> tensor<12x8xf32>
  %2 = nn.onnx "Linear"(%1, %conv) {transposed = true} : (tensor<12x8xf32>, tensor<8x24xf32>) -> tensor<12x24xf32>
  %3 = nn.onnx "Reshape"(%2) : (tensor<12x24xf32>) -> tensor<2x6x3x2x4xf32>
  %v0 = nn.onnx "Slice"(%3) {axis = 2 : i64, start = 2 : i64} : (tensor<2x6x3x2x4xf32>) -> tensor<2x6x1x2x4xf32>
  %q0 = nn.onnx "Slice"(%3) {axis = 2 : i64, start = 0 : i64} : (tensor<2x6x3x2x4xf32>) -> tensor<2x6x1x2x4xf32>
  %k0 = nn.onnx "Slice"(%3) {axis = 2 : i64, start = 1 : i64} : (tensor<2x6x3x2x4xf32>) -> tensor<2x6x1x2x4xf32>
  %q1 = nn.onnx "Reshape"(%q0) : (tensor<2x6x1x2x4xf32>) -> !bthd
  %k1 = nn.onnx "Reshape"(%k0) : (tensor<2x6x1x2x4xf32>) -> !bthd
  %v1 = nn.onnx "Reshape"(%v0) : (tensor<2x6x1x2x4xf32>) -> !bthd
  %q2 = nn.onnx "RMSNormalization"(%q1, %norm) {epsilon = 1.0e-6 : f32} : (!bthd, tensor<4xf32>) -> !bthd
  %q3 = nn.onnx "Transpose"(%q2) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %k3 = nn.onnx "Transpose"(%k1) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %v3 = nn.onnx "Transpose"(%v1) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %q = nn.onnx "RotaryEmbedding"(%q3) {frequencies = array<f32: 1.0>, position_axis = -2 : i64, scale = 1.0 : f32}
    : (!heads) -> !heads
  %o = nn.onnx "Attention"(%q, %k3, %v3) {scale = 0.5 : f32, window = 0 : i64} : (!heads, !heads, !heads) -> !heads
  %4 = nn.onnx "Transpose"(%o) {perm = array<i64: 0, 2, 1, 3>} : (!heads) -> !bthd
  %5 = nn.onnx "Reshape"(%4) : (!bthd) -> !x
  %6 = nn.onnx "Reshape"(%1) : (tensor<12x8xf32>) -> !x
  %7 = nn.onnx "Add"(%6, %5) : (!x, !x) -> !x
  %8 = nn.onnx "Linear"(%7, %table) {transposed = false} : (!x, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %8 : tensor<2x6x16xf32>
}
