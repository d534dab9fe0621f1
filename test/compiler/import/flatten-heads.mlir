// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-flatten-tokens | FileCheck %s
//
// Layer norms of each head: of queries, all heads have one weight; each head of keys has its own, and joins the others.

// CHECK: %[[X:.*]] = nn.embedding
// CHECK: %[[Q:.*]] = nn.layer_norm(%[[X]], %{{.*}}, %{{.*}}) {epsilon = 5.000000e-01 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x?x8xf32, #nn.tokens>
// CHECK: %[[HEADS:.*]]:2 = nn.split(%[[X]]) : (tensor<?x?x8xf32, #nn.tokens>) -> (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
// CHECK: %[[K0:.*]] = nn.layer_norm(%[[HEADS]]#0, %{{.*}}) {epsilon = 5.000000e-01 : f32} : (tensor<?x?x4xf32, #nn.tokens>, tensor<4xf32>)
// CHECK: %[[K1:.*]] = nn.layer_norm(%[[HEADS]]#1, %{{.*}}) {epsilon = 5.000000e-01 : f32} : (tensor<?x?x4xf32, #nn.tokens>, tensor<4xf32>)
// CHECK: %[[K:.*]] = nn.concat(%[[K0]], %[[K1]]) : (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
// CHECK: nn.attention(%[[Q]], %[[K]], %[[X]]) {heads = 2 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32}
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!bthd = tensor<2x6x2x4xf32>
!heads = tensor<2x2x6x4xf32>
!head = tensor<2x1x6x4xf32>
!w = tensor<4xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @shared : !w
nn.parameter @bias : !w
nn.parameter @first : !w
nn.parameter @second : !w
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %shared = nn.read_parameter @shared : !w
  %bias = nn.read_parameter @bias : !w
  %first = nn.read_parameter @first : !w
  %second = nn.read_parameter @second : !w
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Reshape"(%0) : (!x) -> !bthd
  %2 = nn.onnx "LayerNormalization"(%1, %shared, %bias) {epsilon = 0.5 : f32} : (!bthd, !w, !w) -> !bthd
  %q = nn.onnx "Transpose"(%2) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %v = nn.onnx "Transpose"(%1) {perm = array<i64: 0, 2, 1, 3>} : (!bthd) -> !heads
  %h0 = nn.onnx "Slice"(%v) {axis = 1 : i64, start = 0 : i64} : (!heads) -> !head
  %h1 = nn.onnx "Slice"(%v) {axis = 1 : i64, start = 1 : i64} : (!heads) -> !head
  %k0 = nn.onnx "LayerNormalization"(%h0, %first) {epsilon = 0.5 : f32} : (!head, !w) -> !head
  %k1 = nn.onnx "LayerNormalization"(%h1, %second) {epsilon = 0.5 : f32} : (!head, !w) -> !head
  %k = nn.onnx "Concat"(%k0, %k1) {axis = 1 : i64} : (!head, !head) -> !heads
  %o = nn.onnx "Attention"(%q, %k, %v) {scale = 0.5 : f32, window = 0 : i64} : (!heads, !heads, !heads) -> !heads
  %3 = nn.onnx "Transpose"(%o) {perm = array<i64: 0, 2, 1, 3>} : (!heads) -> !bthd
  %4 = nn.onnx "Reshape"(%3) : (!bthd) -> !x
  %5 = nn.onnx "Linear"(%4, %table) {transposed = false} : (!x, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %5 : tensor<2x6x16xf32>
}
