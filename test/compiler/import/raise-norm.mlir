// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise | FileCheck %s
!x = tensor<2x8x4xf32>
!m = tensor<2x8x1xf32>
!s = tensor<f32>
nn.parameter @w : tensor<4xf32>
nn.parameter @b : tensor<4xf32>

// CHECK-LABEL: @rms_norm
// CHECK: nn.onnx "RMSNormalization"(%arg0, %{{.*}}) {epsilon = 9.99999997E-7 : f32, weight_offset = 0.000000e+00 : f32}
// CHECK-NEXT: return
func.func @rms_norm(%x: !x) -> !x {
  %w = nn.read_parameter @w : tensor<4xf32>
  %two = nn.constant dense<2.0> : !s : !s
  %epsilon = nn.constant dense<1.0e-6> : !s : !s
  %0 = nn.onnx "Pow"(%x, %two) : (!x, !s) -> !x
  %1 = nn.onnx "ReduceMean"(%0) : (!x) -> !m
  %2 = nn.onnx "Add"(%1, %epsilon) : (!m, !s) -> !m
  %3 = nn.onnx "Sqrt"(%2) : (!m) -> !m
  %4 = nn.onnx "Reciprocal"(%3) : (!m) -> !m
  %5 = nn.onnx "Mul"(%x, %4) : (!x, !m) -> !x
  %6 = nn.onnx "Mul"(%w, %5) : (tensor<4xf32>, !x) -> !x
  return %6 : !x
}

// Gemma's weight is 1 + w, and the square can be a product.
// CHECK-LABEL: @offset
// CHECK: nn.onnx "RMSNormalization"(%arg0, %{{.*}}) {epsilon = {{.*}}, weight_offset = 1.000000e+00 : f32}
func.func @offset(%x: !x) -> !x {
  %w = nn.read_parameter @w : tensor<4xf32>
  %one = nn.constant dense<1.0> : !s : !s
  %epsilon = nn.constant dense<1.0e-6> : !s : !s
  %0 = nn.onnx "Mul"(%x, %x) : (!x, !x) -> !x
  %1 = nn.onnx "ReduceMean"(%0) : (!x) -> !m
  %2 = nn.onnx "Add"(%epsilon, %1) : (!s, !m) -> !m
  %3 = nn.onnx "Sqrt"(%2) : (!m) -> !m
  %4 = nn.onnx "Div"(%x, %3) : (!x, !m) -> !x
  %5 = nn.onnx "Add"(%one, %w) : (!s, tensor<4xf32>) -> tensor<4xf32>
  %6 = nn.onnx "Mul"(%4, %5) : (!x, tensor<4xf32>) -> !x
  return %6 : !x
}

// CHECK-LABEL: @layer_norm
// CHECK: nn.onnx "LayerNormalization"(%arg0, %{{.*}}, %{{.*}}) {epsilon = 9.99999974E-6 : f32}
// CHECK-NEXT: return
func.func @layer_norm(%x: !x) -> !x {
  %w = nn.read_parameter @w : tensor<4xf32>
  %b = nn.read_parameter @b : tensor<4xf32>
  %two = nn.constant dense<2.0> : !s : !s
  %epsilon = nn.constant dense<1.0e-5> : !s : !s
  %mean = nn.onnx "ReduceMean"(%x) : (!x) -> !m
  %centered = nn.onnx "Sub"(%x, %mean) : (!x, !m) -> !x
  %0 = nn.onnx "Pow"(%centered, %two) : (!x, !s) -> !x
  %1 = nn.onnx "ReduceMean"(%0) : (!x) -> !m
  %2 = nn.onnx "Add"(%1, %epsilon) : (!m, !s) -> !m
  %3 = nn.onnx "Sqrt"(%2) : (!m) -> !m
  %4 = nn.onnx "Div"(%centered, %3) : (!x, !m) -> !x
  %5 = nn.onnx "Mul"(%4, %w) : (!x, tensor<4xf32>) -> !x
  %6 = nn.onnx "Add"(%5, %b) : (!x, tensor<4xf32>) -> !x
  return %6 : !x
}

// The mean of another value's square is no norm.
// CHECK-LABEL: @other
// CHECK-NOT: Normalization
func.func @other(%x: !x, %y: !x) -> !x {
  %w = nn.read_parameter @w : tensor<4xf32>
  %epsilon = nn.constant dense<1.0e-6> : !s : !s
  %0 = nn.onnx "Mul"(%y, %y) : (!x, !x) -> !x
  %1 = nn.onnx "ReduceMean"(%0) : (!x) -> !m
  %2 = nn.onnx "Add"(%1, %epsilon) : (!m, !s) -> !m
  %3 = nn.onnx "Sqrt"(%2) : (!m) -> !m
  %4 = nn.onnx "Div"(%x, %3) : (!x, !m) -> !x
  %5 = nn.onnx "Mul"(%4, %w) : (!x, tensor<4xf32>) -> !x
  return %5 : !x
}

// Without a weight, it is of ones; with 1 + w, of an offset.
// CHECK-LABEL: @unweighted
// CHECK: %[[ONES:.*]] = nn.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: nn.onnx "RMSNormalization"(%arg0, %[[ONES]]) {epsilon = 9.99999997E-7 : f32}
// CHECK-NEXT: return
func.func @unweighted(%x: !x) -> !x {
  %epsilon = nn.constant dense<1.0e-6> : !s : !s
  %0 = nn.onnx "Mul"(%x, %x) : (!x, !x) -> !x
  %1 = nn.onnx "ReduceMean"(%0) : (!x) -> !m
  %2 = nn.onnx "Add"(%1, %epsilon) : (!m, !s) -> !m
  %3 = nn.onnx "Sqrt"(%2) : (!m) -> !m
  %4 = nn.onnx "Reciprocal"(%3) : (!m) -> !m
  %5 = nn.onnx "Mul"(%x, %4) : (!x, !m) -> !x
  return %5 : !x
}

// CHECK-LABEL: @offset_layer_norm
// CHECK: nn.onnx "LayerNormalization"(%arg0, %{{.*}}, %{{.*}}) {epsilon = 9.99999974E-6 : f32, weight_offset = 1.000000e+00 : f32}
// CHECK-NEXT: return
func.func @offset_layer_norm(%x: !x) -> !x {
  %w = nn.read_parameter @w : tensor<4xf32>
  %b = nn.read_parameter @b : tensor<4xf32>
  %one = nn.constant dense<1.0> : !s : !s
  %0 = nn.onnx "Add"(%w, %one) : (tensor<4xf32>, !s) -> tensor<4xf32>
  %1 = nn.onnx "LayerNormalization"(%x, %0, %b) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>, tensor<4xf32>) -> !x
  return %1 : !x
}
