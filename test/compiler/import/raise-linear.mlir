// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise | FileCheck %s
!x = tensor<2x8x4xf32>
!y = tensor<2x8x6xf32>
nn.parameter @w : tensor<6x4xf32>
nn.parameter @conv : tensor<4x6xf32>
nn.parameter @b : tensor<6xf32>

// CHECK-LABEL: @matmul
// CHECK: nn.onnx "Linear"(%arg0, %{{.*}}, %{{.*}}) {transposed = false}
// CHECK-NEXT: return
func.func @matmul(%x: !x) -> !y {
  %w = nn.read_parameter @w : tensor<6x4xf32>
  %b = nn.read_parameter @b : tensor<6xf32>
  %0 = nn.onnx "Transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = nn.onnx "MatMul"(%x, %0) : (!x, tensor<4x6xf32>) -> !y
  %2 = nn.onnx "Add"(%b, %1) : (tensor<6xf32>, !y) -> !y
  return %2 : !y
}

// CHECK-LABEL: @gemm
// CHECK: nn.onnx "Linear"(%arg0, %{{.*}}, %{{.*}}) {transposed = true}
func.func @gemm(%x: tensor<16x4xf32>) -> tensor<16x6xf32> {
  %w = nn.read_parameter @conv : tensor<4x6xf32>
  %b = nn.read_parameter @b : tensor<6xf32>
  %0 = nn.onnx "Gemm"(%x, %w, %b) : (tensor<16x4xf32>, tensor<4x6xf32>, tensor<6xf32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// CHECK-LABEL: @expanded_bias
// CHECK: nn.onnx "Linear"(%arg0, %{{.*}}, %{{.*}}) {transposed = false}
// CHECK-NEXT: return
func.func @expanded_bias(%x: !x) -> !y {
  %w = nn.read_parameter @w : tensor<6x4xf32>
  %b = nn.read_parameter @b : tensor<6xf32>
  %0 = nn.onnx "Transpose"(%w) {perm = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = nn.onnx "MatMul"(%x, %0) : (!x, tensor<4x6xf32>) -> !y
  %2 = nn.onnx "Expand"(%b) : (tensor<6xf32>) -> !y
  %3 = nn.onnx "Add"(%1, %2) : (!y, !y) -> !y
  return %3 : !y
}
