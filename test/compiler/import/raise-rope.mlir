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

// The other sign turns the other way.
// CHECK-LABEL: @back
// CHECK: nn.onnx "RotaryEmbedding"(%arg0) {frequencies = array<f32: 1.000000e+00, 1.000000e-01>, inverse = 1 : i64, position_axis = -2 : i64, scale = 1.000000e+00 : f32}
// CHECK-NEXT: return
func.func @back(%x: !x) -> !x {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1, 1.0, 0.1>, position_axis = 2 : i64} : !t
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.1, 1.0, 0.1>, position_axis = 2 : i64} : !t
  %0 = nn.onnx "Mul"(%x, %cos) : (!x, !t) -> !x
  %x1 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64} : (!x) -> !half
  %x2 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 2 : i64} : (!x) -> !half
  %1 = nn.onnx "Neg"(%x1) : (!half) -> !half
  %2 = nn.onnx "Concat"(%x2, %1) {axis = 3 : i64} : (!half, !half) -> !x
  %3 = nn.onnx "Mul"(%2, %sin) : (!x, !t) -> !x
  %4 = nn.onnx "Add"(%0, %3) : (!x, !x) -> !x
  return %4 : !x
}

// Halves that change places without a sign are not turned.
// CHECK-LABEL: @swapped
// CHECK-NOT: "RotaryEmbedding"
func.func @swapped(%x: !x) -> !x {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1, 1.0, 0.1>, position_axis = 2 : i64} : !t
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.1, 1.0, 0.1>, position_axis = 2 : i64} : !t
  %0 = nn.onnx "Mul"(%x, %cos) : (!x, !t) -> !x
  %x1 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64} : (!x) -> !half
  %x2 = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 2 : i64} : (!x) -> !half
  %1 = nn.onnx "Concat"(%x2, %x1) {axis = 3 : i64} : (!half, !half) -> !x
  %2 = nn.onnx "Mul"(%1, %sin) : (!x, !t) -> !x
  %3 = nn.onnx "Add"(%0, %2) : (!x, !x) -> !x
  return %3 : !x
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

// Pairs that stand behind the rest of a head: what stands before is rotated by nothing.
// CHECK-LABEL: @pairs_behind
// CHECK: nn.onnx "RotaryEmbedding"(%arg0) {frequencies = array<f32: 0.000000e+00, 1.000000e+00, 1.000000e-01>, interleaved = 1 : i64
// CHECK-NEXT: return
func.func @pairs_behind(%x: !wide) -> !wide {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : tensor<1x1x8x2xf32>
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : tensor<1x1x8x2xf32>
  %rest = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64} : (!wide) -> !half
  %part = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 2 : i64} : (!wide) -> !x
  %0 = nn.onnx "RotaryEmbedding"(%part, %cos, %sin) {interleaved = 1 : i64} : (!x, tensor<1x1x8x2xf32>, tensor<1x1x8x2xf32>) -> !x
  %1 = nn.onnx "Concat"(%rest, %0) {axis = 3 : i64} : (!half, !x) -> !wide
  return %1 : !wide
}

// Halves cannot stand there: the rest would lie between them.
// CHECK-LABEL: @halves_behind
// CHECK: nn.onnx "Concat"
func.func @halves_behind(%x: !wide) -> !wide {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : tensor<1x1x8x2xf32>
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : tensor<1x1x8x2xf32>
  %rest = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 0 : i64} : (!wide) -> !half
  %part = nn.onnx "Slice"(%x) {axis = 3 : i64, start = 2 : i64} : (!wide) -> !x
  %0 = nn.onnx "RotaryEmbedding"(%part, %cos, %sin) : (!x, tensor<1x1x8x2xf32>, tensor<1x1x8x2xf32>) -> !x
  %1 = nn.onnx "Concat"(%rest, %0) {axis = 3 : i64} : (!half, !x) -> !wide
  return %1 : !wide
}

// DeepSeek's: pairs of neighbours are in halves afterwards. Of queries and keys alike that changes no product, so they stay
// in pairs; the keys' are those of all heads.
!one = tensor<2x1x8x4xf32>
!onehalf = tensor<2x1x8x2xf32>
!short = tensor<1x1x8x2xf32>
// CHECK-LABEL: @apart
// CHECK: %[[Q:.*]] = nn.onnx "RotaryEmbedding"(%arg0) {frequencies = array<f32: 0.000000e+00, 1.000000e+00, 1.000000e-01>, interleaved = 1 : i64, position_axis = -2 : i64, scale = 1.000000e+00 : f32}
// CHECK: %[[K:.*]] = nn.onnx "RotaryEmbedding"(%arg1) {frequencies = array<f32: 1.000000e+00, 1.000000e-01>, interleaved = 1 : i64, position_axis = -2 : i64, scale = 1.000000e+00 : f32}
// CHECK: %[[ALL:.*]] = nn.onnx "Expand"(%[[K]])
// CHECK: %[[KEYS:.*]] = nn.onnx "Concat"(%arg2, %[[ALL]])
// CHECK: nn.onnx "Attention"(%[[Q]], %[[KEYS]], %arg3)
func.func @apart(%q: !wide, %k: !one, %rest: !half, %v: !x) -> !x {
  %cos = nn.rotary_table "cos" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : !short
  %sin = nn.rotary_table "sin" {frequencies = array<f32: 1.0, 0.1>, position_axis = 2 : i64} : !short
  %k1 = nn.onnx "Slice"(%k) {axis = 3 : i64, start = 0 : i64, step = 2 : i64} : (!one) -> !onehalf
  %k2 = nn.onnx "Slice"(%k) {axis = 3 : i64, start = 1 : i64, step = 2 : i64} : (!one) -> !onehalf
  %k3 = nn.onnx "Mul"(%k1, %cos) : (!onehalf, !short) -> !onehalf
  %k4 = nn.onnx "Mul"(%k2, %sin) : (!onehalf, !short) -> !onehalf
  %k5 = nn.onnx "Sub"(%k3, %k4) : (!onehalf, !onehalf) -> !onehalf
  %k6 = nn.onnx "Mul"(%k2, %cos) : (!onehalf, !short) -> !onehalf
  %k7 = nn.onnx "Mul"(%k1, %sin) : (!onehalf, !short) -> !onehalf
  %k8 = nn.onnx "Add"(%k6, %k7) : (!onehalf, !onehalf) -> !onehalf
  %k9 = nn.onnx "Concat"(%k5, %k8) {axis = 3 : i64} : (!onehalf, !onehalf) -> !one
  %ka = nn.onnx "Expand"(%k9) : (!one) -> !x
  %keys = nn.onnx "Concat"(%rest, %ka) {axis = 3 : i64} : (!half, !x) -> !wide
  %q0 = nn.onnx "Slice"(%q) {axis = 3 : i64, start = 0 : i64} : (!wide) -> !half
  %qr = nn.onnx "Slice"(%q) {axis = 3 : i64, start = 2 : i64} : (!wide) -> !x
  %q1 = nn.onnx "Slice"(%qr) {axis = 3 : i64, start = 0 : i64, step = 2 : i64} : (!x) -> !half
  %q2 = nn.onnx "Slice"(%qr) {axis = 3 : i64, start = 1 : i64, step = 2 : i64} : (!x) -> !half
  %q3 = nn.onnx "Mul"(%q1, %cos) : (!half, !short) -> !half
  %q4 = nn.onnx "Mul"(%q2, %sin) : (!half, !short) -> !half
  %q5 = nn.onnx "Sub"(%q3, %q4) : (!half, !half) -> !half
  %q6 = nn.onnx "Mul"(%q2, %cos) : (!half, !short) -> !half
  %q7 = nn.onnx "Mul"(%q1, %sin) : (!half, !short) -> !half
  %q8 = nn.onnx "Add"(%q6, %q7) : (!half, !half) -> !half
  %q9 = nn.onnx "Concat"(%q5, %q8) {axis = 3 : i64} : (!half, !half) -> !x
  %queries = nn.onnx "Concat"(%q0, %q9) {axis = 3 : i64} : (!half, !x) -> !wide
  %o = nn.onnx "Attention"(%queries, %keys, %v) {is_causal = 1 : i64, scale = 0.5 : f32} : (!wide, !wide, !x) -> !x
  return %o : !x
}
