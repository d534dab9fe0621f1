// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-flatten-tokens | FileCheck %s
//
// Groups of two heads of queries, then a key and a value of one head (Falcon). Keys and values are repeated for the queries
// that share them: attention reads each once, a rotated key too.

// CHECK: %[[QKV:.*]] = nn.linear
// CHECK: %[[PARTS:.*]]:3 = nn.split(%[[QKV]]) {groups = 2 : i64} : (tensor<?x?x16xf32, #nn.tokens>) -> (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
// CHECK: %[[K:.*]] = nn.rope(%[[PARTS]]#1) {frequencies = array<f32: 1.000000e+00>, head_dim = 2 : i64, inverse = true} : (tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
// CHECK: nn.attention(%[[PARTS]]#0, %[[K]], %[[PARTS]]#2) {heads = 4 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32}
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!groups = tensor<2x6x2x4x2xf32>
!one = tensor<2x6x2x1x2xf32>
!two = tensor<2x6x2x2x2xf32>
!bthd = tensor<2x6x4x2xf32>
!heads = tensor<2x4x6x2xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @qkv : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %qkv = nn.read_parameter @qkv : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Linear"(%0, %qkv) {transposed = false} : (!x, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  %2 = nn.onnx "Reshape"(%1) : (tensor<2x6x16xf32>) -> !groups
  %q0 = nn.onnx "Slice"(%2) {axis = 3 : i64, start = 0 : i64} : (!groups) -> !two
  %k0 = nn.onnx "Slice"(%2) {axis = 3 : i64, start = 2 : i64} : (!groups) -> !one
  %v0 = nn.onnx "Slice"(%2) {axis = 3 : i64, start = 3 : i64} : (!groups) -> !one
  %k1 = nn.onnx "Expand"(%k0) : (!one) -> !two
  %v1 = nn.onnx "Expand"(%v0) : (!one) -> !two
  %q2 = nn.onnx "Reshape"(%q0) : (!two) -> !bthd
  %k2 = nn.onnx "Reshape"(%k1) : (!two) -> !bthd
  %v2 = nn.onnx "Reshape"(%v1) : (!two) -> !bthd
  %q = nn.onnx "Transpose"(%q2) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %k3 = nn.onnx "Transpose"(%k2) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %v = nn.onnx "Transpose"(%v2) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %k = nn.onnx "RotaryEmbedding"(%k3) {frequencies = array<f32: 1.0>, inverse = 1 : i64, position_axis = -2 : i64, scale = 1.0 : f32}
    : (!heads) -> !heads
  %o = nn.onnx "Attention"(%q, %k, %v) {scale = 0.5 : f32, window = 0 : i64} : (!heads, !heads, !heads) -> !heads
  %3 = nn.onnx "Transpose"(%o) {perm = array<i64: 0, 2, 1, 3>} : (!heads) -> !bthd
  %4 = nn.onnx "Reshape"(%3) : (!bthd) -> !x
  %5 = nn.onnx "Linear"(%4, %table) {transposed = false} : (!x, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %5 : tensor<2x6x16xf32>
}
