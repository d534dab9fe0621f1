// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-flatten-tokens | FileCheck %s
//
// Latent attention: of each head of %kv, two features are of its key and three are its value. Two more features of a key are
// those of all heads.

// CHECK: %[[X:.*]] = nn.embedding
// CHECK: %[[KV:.*]] = nn.linear(%[[X]], %{{.*}}) : (tensor<?x?x8xf32, #nn.tokens>, tensor<10x8xf32>) -> tensor<?x?x10xf32, #nn.tokens>
// CHECK: %[[PARTS:.*]]:2 = nn.split(%[[KV]]) {groups = 2 : i64} : (tensor<?x?x10xf32, #nn.tokens>) -> (tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x6xf32, #nn.tokens>)
// CHECK: %[[SHARED:.*]] = nn.linear(%[[X]], %{{.*}}) : (tensor<?x?x8xf32, #nn.tokens>, tensor<2x8xf32>) -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: %[[ALL:.*]] = nn.repeat(%[[SHARED]]) : (tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
// CHECK: %[[KEYS:.*]] = nn.concat(%[[PARTS]]#0, %[[ALL]]) {groups = 2 : i64} : {{.*}} -> tensor<?x?x8xf32, #nn.tokens>
// CHECK: %[[O:.*]], %{{.*}} = nn.attention(%[[X]], %[[KEYS]], %[[PARTS]]#1) {heads = 2 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32} : {{.*}} -> (tensor<?x?x6xf32, #nn.tokens>,
// CHECK: nn.linear(%[[O]], %{{.*}}) : (tensor<?x?x6xf32, #nn.tokens>
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!part = tensor<2x2x6x2xf32>
!keys = tensor<2x2x6x4xf32>
!values = tensor<2x2x6x3xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @kv : tensor<10x8xf32>
nn.parameter @shared : tensor<2x8xf32>
nn.parameter @out : tensor<16x6xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %kv_weight = nn.read_parameter @kv : tensor<10x8xf32>
  %shared_weight = nn.read_parameter @shared : tensor<2x8xf32>
  %out = nn.read_parameter @out : tensor<16x6xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %q0 = nn.onnx "Reshape"(%0) : (!x) -> tensor<2x6x2x4xf32>
  %q = nn.onnx "Transpose"(%q0) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x6x2x4xf32>) -> !keys
  %kv0 = nn.onnx "Linear"(%0, %kv_weight) {transposed = false} : (!x, tensor<10x8xf32>) -> tensor<2x6x10xf32>
  %kv1 = nn.onnx "Reshape"(%kv0) : (tensor<2x6x10xf32>) -> tensor<2x6x2x5xf32>
  %kv = nn.onnx "Transpose"(%kv1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x6x2x5xf32>) -> tensor<2x2x6x5xf32>
  %k0 = nn.onnx "Slice"(%kv) {axis = 3 : i64, start = 0 : i64} : (tensor<2x2x6x5xf32>) -> !part
  %v = nn.onnx "Slice"(%kv) {axis = 3 : i64, start = 2 : i64} : (tensor<2x2x6x5xf32>) -> !values
  %s0 = nn.onnx "Linear"(%0, %shared_weight) {transposed = false} : (!x, tensor<2x8xf32>) -> tensor<2x6x2xf32>
  %s1 = nn.onnx "Reshape"(%s0) : (tensor<2x6x2xf32>) -> tensor<2x1x6x2xf32>
  %s = nn.onnx "Expand"(%s1) : (tensor<2x1x6x2xf32>) -> !part
  %k = nn.onnx "Concat"(%k0, %s) {axis = 3 : i64} : (!part, !part) -> !keys
  %o = nn.onnx "Attention"(%q, %k, %v) {scale = 0.5 : f32, window = 0 : i64} : (!keys, !keys, !values) -> !values
  %1 = nn.onnx "Transpose"(%o) {perm = array<i64: 0, 2, 1, 3>} : (!values) -> tensor<2x6x2x3xf32>
  %2 = nn.onnx "Reshape"(%1) : (tensor<2x6x2x3xf32>) -> tensor<2x6x6xf32>
  %3 = nn.onnx "Linear"(%2, %out) {transposed = false} : (tensor<2x6x6xf32>, tensor<16x6xf32>) -> tensor<2x6x16xf32>
  return %3 : tensor<2x6x16xf32>
}
