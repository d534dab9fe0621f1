// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise --mebp-flatten-tokens | FileCheck %s

// A convolution's weight loses its axis of one. Key heads that were repeated are read as they are; -exp(A) softplus(x +
// bias) is a decay, in either order, and a sigmoid that gates nothing gates ones.
// CHECK: nn.parameter @conv : tensor<8x3xf32> {shape = array<i64: 8, 1, 3>}
// CHECK: %[[CONV:.*]] = nn.read_parameter @conv : tensor<8x3xf32>
// CHECK: %[[Y:.*]], %{{.*}} = nn.causal_conv(%[[X:.*]], %[[CONV]]) : {{.*}} -> (tensor<?x?x8xf32, #nn.tokens>, tensor<2x8xf32>)
// CHECK: %[[R:.*]] = nn.linear(%[[X]], %{{.*}})
// CHECK: %[[ONES:.*]] = nn.fill() {value = 1.000000e+00 : f32}
// CHECK: %[[BETA:.*]] = nn.gated(%[[R]], %[[ONES]]) {activation = "sigmoid"}
// CHECK: %[[G:.*]] = nn.softplus(%[[R]] bias %{{.*}} rate %{{.*}})
// CHECK: %[[K:.*]]:2 = nn.split(%[[Y]])
// CHECK: nn.gated_delta(%[[K]]#0, %[[K]]#0, %[[Y]], %[[G]], %[[BETA]]) {heads = 2 : i64, kv_heads = 1 : i64, scale = 2.500000e-01 : f32}
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!h = tensor<2x6x2xf32>
!k = tensor<2x6x2x4xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @conv : tensor<8x1x3xf32>
nn.parameter @gate : tensor<2x8xf32>
nn.parameter @bias : tensor<2xf32>
nn.parameter @A : tensor<2xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %conv = nn.read_parameter @conv : tensor<8x1x3xf32>
  %gate = nn.read_parameter @gate : tensor<2x8xf32>
  %bias = nn.read_parameter @bias : tensor<2xf32>
  %A = nn.read_parameter @A : tensor<2xf32>
  %x = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %w = nn.onnx "Reshape"(%conv) : (tensor<8x1x3xf32>) -> tensor<8x3xf32>
  %y = nn.onnx "CausalConv"(%x, %w) : (!x, tensor<8x3xf32>) -> !x
  %r = nn.onnx "Linear"(%x, %gate) : (!x, tensor<2x8xf32>) -> !h
  %beta = nn.onnx "Sigmoid"(%r) : (!h) -> !h
  %shifted = nn.onnx "Add"(%bias, %r) : (tensor<2xf32>, !h) -> !h
  %soft = nn.onnx "Softplus"(%shifted) : (!h) -> !h
  %power = nn.onnx "Exp"(%A) : (tensor<2xf32>) -> tensor<2xf32>
  %negative = nn.onnx "Neg"(%power) : (tensor<2xf32>) -> tensor<2xf32>
  %g = nn.onnx "Mul"(%soft, %negative) : (!h, tensor<2xf32>) -> !h
  %v = nn.onnx "Reshape"(%y) : (!x) -> !k
  %one = nn.onnx "Slice"(%y) {axis = 2 : i64, start = 0 : i64} : (!x) -> tensor<2x6x4xf32>
  %head = nn.onnx "Reshape"(%one) : (tensor<2x6x4xf32>) -> tensor<2x6x1x4xf32>
  %q = nn.onnx "Expand"(%head) : (tensor<2x6x1x4xf32>) -> !k
  %o = nn.onnx "GatedDelta"(%q, %q, %v, %g, %beta) {scale = 0.25 : f32} : (!k, !k, !k, !h, !h) -> !k
  %flat = nn.onnx "Reshape"(%o) : (!k) -> !x
  %logits = nn.onnx "Linear"(%flat, %table) : (!x, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %logits : tensor<2x6x16xf32>
}
