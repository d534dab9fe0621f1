// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise | FileCheck %s
!q = tensor<2x4x8x6xf32>
!b = tensor<8x8x6xf32>
!p = tensor<2x4x8x8xf32>
!w = tensor<8x8x8xf32>
!s = tensor<f32>

// As BLOOM: a batched product that is added to a bias, whose heads are part of its batch.
// CHECK-LABEL: @bias
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg2) {scale = 5.000000e-01 : f32, slopes = array<f32: 1.000000e+00, 5.000000e-01, 2.500000e-01, 1.250000e-01>, window = 0 : i64}
// CHECK-NEXT: return
func.func @bias(%q: !q, %k: !q, %v: !q) -> !q {
  %half = nn.constant dense<0.5> : !s : !s
  %mask = nn.causal_mask : tensor<2x1x8x8xf32>
  %bias = nn.position_bias {slopes = array<f32: 1.0, 0.5, 0.25, 0.125, 1.0, 0.5, 0.25, 0.125>} : tensor<8x1x8xf32>
  %0 = nn.onnx "Reshape"(%q) : (!q) -> !b
  %1 = nn.onnx "Reshape"(%k) : (!q) -> !b
  %2 = nn.onnx "Reshape"(%v) : (!q) -> !b
  %3 = nn.onnx "Transpose"(%1) {perm = array<i64: 0, 2, 1>} : (!b) -> tensor<8x6x8xf32>
  %4 = nn.onnx "MatMul"(%0, %3) : (!b, tensor<8x6x8xf32>) -> !w
  %5 = nn.onnx "Mul"(%4, %half) : (!w, !s) -> !w
  %6 = nn.onnx "Add"(%5, %bias) : (!w, tensor<8x1x8xf32>) -> !w
  %7 = nn.onnx "Reshape"(%6) : (!w) -> !p
  %8 = nn.onnx "Add"(%7, %mask) : (!p, tensor<2x1x8x8xf32>) -> !p
  %9 = nn.onnx "Softmax"(%8) : (!p) -> !p
  %10 = nn.onnx "Reshape"(%9) : (!p) -> !w
  %11 = nn.onnx "MatMul"(%10, %2) : (!w, !b) -> !b
  %12 = nn.onnx "Reshape"(%11) : (!b) -> !q
  return %12 : !q
}

// As XGLM: a softmax of merged scores, which are kept from becoming infinite. As GPT-NeoX-Japanese: zeros are added.
// CHECK-LABEL: @bounded
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 1.000000e+00 : f32, window = 0 : i64}
// CHECK-NEXT: return
func.func @bounded(%q: !q, %k: !q) -> !q {
  %lowest = nn.constant dense<-3.0e38> : !s : !s
  %zeros = nn.constant dense<0.0> : !w : !w
  %mask = nn.causal_mask : tensor<1x1x8x8xf32>
  %0 = nn.onnx "Reshape"(%q) : (!q) -> !b
  %1 = nn.onnx "Reshape"(%k) : (!q) -> !b
  %2 = nn.onnx "Transpose"(%1) {perm = array<i64: 0, 2, 1>} : (!b) -> tensor<8x6x8xf32>
  %3 = nn.onnx "MatMul"(%0, %2) : (!b, tensor<8x6x8xf32>) -> !w
  %4 = nn.onnx "Add"(%3, %zeros) : (!w, !w) -> !w
  %5 = nn.onnx "Reshape"(%4) : (!w) -> !p
  %6 = nn.onnx "Add"(%5, %mask) : (!p, tensor<1x1x8x8xf32>) -> !p
  %7 = nn.onnx "Max"(%6, %lowest) : (!p, !s) -> !p
  %8 = nn.onnx "Reshape"(%7) : (!p) -> !w
  %9 = nn.onnx "Softmax"(%8) : (!w) -> !w
  %10 = nn.onnx "MatMul"(%9, %1) : (!w, !b) -> !b
  %11 = nn.onnx "Reshape"(%10) : (!b) -> !q
  return %11 : !q
}

// A bound that scores may reach changes them.
// CHECK-LABEL: @bounded_from_below
// CHECK: nn.onnx "Max"
// CHECK: nn.onnx "Softmax"
func.func @bounded_from_below(%q: !q, %k: !q) -> !q {
  %zero = nn.constant dense<0.0> : !s : !s
  %mask = nn.causal_mask : tensor<1x1x8x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Add"(%1, %mask) : (!p, tensor<1x1x8x8xf32>) -> !p
  %3 = nn.onnx "Max"(%2, %zero) : (!p, !s) -> !p
  %4 = nn.onnx "Softmax"(%3) : (!p) -> !p
  %5 = nn.onnx "MatMul"(%4, %k) : (!p, !q) -> !q
  return %5 : !q
}

// Axes that are merged otherwise stay so.
// CHECK-LABEL: @other_merge
// CHECK: nn.onnx "MatMul"({{.*}}) : (tensor<8x8x6xf32>, tensor<8x6x8xf32>) -> tensor<8x8x8xf32>
func.func @other_merge(%x: tensor<8x2x4x6xf32>, %y: tensor<8x6x8xf32>) -> !w {
  %0 = nn.onnx "Reshape"(%x) : (tensor<8x2x4x6xf32>) -> !b
  %1 = nn.onnx "MatMul"(%0, %y) : (!b, tensor<8x6x8xf32>) -> !w
  return %1 : !w
}
