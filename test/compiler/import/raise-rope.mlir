// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise | FileCheck %s
!x = tensor<2x3x8x4xf32>
!half = tensor<2x3x8x2xf32>
!wide = tensor<2x3x8x6xf32>
!t = tensor<1x1x8x4xf32>

// CHECK-LABEL: @halves
// CHECK: nn.onnx "RotaryEmbedding"(%arg0) {frequencies = array<f32: 1.000000e+00, 1.000000e-01>, position_axis = -2 : i64, scale = 1.000000e+00 : f32}
// CHECK-NEXT: return
func.func @halves(%x: !x) -> !x {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1, 1.0, 0.1>, position_axis = 2 : i64} : !t
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.1, 1.0, 0.1>, position_axis = 2 : i64} : !t
  %0 = nn.onnx "Mul"(%x, %cos) : (!x, !t) -> !x
  %x1 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64} : (!x) -> !half
  %x2 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 2 : i64} : (!x) -> !half
  %1 = nn.onnx "Neg"(%x2) : (!half) -> !half
  %2 = nn.onnx "Concat"(%1, %x1) {axis = 3 : i64} : (!half, !half) -> !x
  %3 = nn.onnx "Mul"(%2, %sin) : (!x, !t) -> !x
  %4 = nn.onnx "Add"(%0, %3) : (!x, !x) -> !x
  return %4 : !x
}

// A part of each head is rotated, the rest goes on as it is.
// CHECK-LABEL: @partial
// CHECK: nn.onnx "RotaryEmbedding"(%arg0) {frequencies = array<f32: 1.000000e+00, 1.000000e-01>
// CHECK-NEXT: return
func.func @partial(%x: !wide) -> !wide {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : tensor<1x1x8x2xf32>
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : tensor<1x1x8x2xf32>
  %part = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64} : (!wide) -> !x
  %rest = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 4 : i64} : (!wide) -> !half
  %0 = nn.onnx "RotaryEmbedding"(%part, %cos, %sin) : (!x, tensor<1x1x8x2xf32>, tensor<1x1x8x2xf32>) -> !x
  %1 = nn.onnx "Concat"(%0, %rest) {axis = 3 : i64} : (!x, !half) -> !wide
  return %1 : !wide
}

// CHECK-LABEL: @other_angles
// CHECK-NOT: "RotaryEmbedding"
func.func @other_angles(%x: !x) -> !x {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1, 1.0, 0.1>, position_axis = 2 : i64} : !t
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.2, 1.0, 0.2>, position_axis = 2 : i64} : !t
  %0 = nn.onnx "Mul"(%x, %cos) : (!x, !t) -> !x
  %x1 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64} : (!x) -> !half
  %x2 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 2 : i64} : (!x) -> !half
  %1 = nn.onnx "Neg"(%x2) : (!half) -> !half
  %2 = nn.onnx "Concat"(%1, %x1) {axis = 3 : i64} : (!half, !half) -> !x
  %3 = nn.onnx "Mul"(%2, %sin) : (!x, !t) -> !x
  %4 = nn.onnx "Add"(%0, %3) : (!x, !x) -> !x
  return %4 : !x
}

// Pairs of neighbours, with the sign before or after the new axis.
// CHECK-LABEL: @pairs
// CHECK: nn.onnx "RotaryEmbedding"(%arg0) {frequencies = array<f32: 1.000000e+00, 1.000000e-01>, interleaved = 1 : i64, position_axis = -2 : i64, scale = 1.000000e+00 : f32}
// CHECK-NEXT: return
func.func @pairs(%x: !x) -> !x {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 1.0, 0.1, 0.1>, position_axis = 2 : i64} : !t
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 1.0, 0.1, 0.1>, position_axis = 2 : i64} : !t
  %even = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64, step = 2 : i64} : (!x) -> !half
  %odd = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 1 : i64, step = 2 : i64} : (!x) -> !half
  %0 = nn.onnx "Neg"(%odd) : (!half) -> !half
  %1 = nn.onnx "Reshape"(%0) : (!half) -> tensor<2x3x8x2x1xf32>
  %2 = nn.onnx "Reshape"(%even) : (!half) -> tensor<2x3x8x2x1xf32>
  %3 = nn.onnx "Concat"(%1, %2) {axis = 4 : i64} : (tensor<2x3x8x2x1xf32>, tensor<2x3x8x2x1xf32>) -> tensor<2x3x8x2x2xf32>
  %4 = nn.onnx "Reshape"(%3) : (tensor<2x3x8x2x2xf32>) -> !x
  %5 = nn.onnx "Mul"(%x, %cos) : (!x, !t) -> !x
  %6 = nn.onnx "Mul"(%4, %sin) : (!x, !t) -> !x
  %7 = nn.onnx "Add"(%5, %6) : (!x, !x) -> !x
  return %7 : !x
}

// Neighbours of the wrong order are turned the other way.
// CHECK-LABEL: @swapped_pairs
// CHECK-NOT: "RotaryEmbedding"
func.func @swapped_pairs(%x: !x) -> !x {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 1.0, 0.1, 0.1>, position_axis = 2 : i64} : !t
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 1.0, 0.1, 0.1>, position_axis = 2 : i64} : !t
  %even = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64, step = 2 : i64} : (!x) -> !half
  %odd = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 1 : i64, step = 2 : i64} : (!x) -> !half
  %0 = nn.onnx "Neg"(%even) : (!half) -> !half
  %1 = nn.onnx "Reshape"(%0) : (!half) -> tensor<2x3x8x2x1xf32>
  %2 = nn.onnx "Reshape"(%odd) : (!half) -> tensor<2x3x8x2x1xf32>
  %3 = nn.onnx "Concat"(%1, %2) {axis = 4 : i64} : (tensor<2x3x8x2x1xf32>, tensor<2x3x8x2x1xf32>) -> tensor<2x3x8x2x2xf32>
  %4 = nn.onnx "Reshape"(%3) : (tensor<2x3x8x2x2xf32>) -> !x
  %5 = nn.onnx "Mul"(%x, %cos) : (!x, !t) -> !x
  %6 = nn.onnx "Mul"(%4, %sin) : (!x, !t) -> !x
  %7 = nn.onnx "Add"(%5, %6) : (!x, !x) -> !x
  return %7 : !x
}
