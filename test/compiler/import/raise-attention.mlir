// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-raise | FileCheck %s
!q = tensor<2x4x8x6xf32>
!k = tensor<2x2x8x6xf32>
!p = tensor<2x4x8x8xf32>
!s = tensor<f32>

// CHECK-LABEL: @fused
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg2) {scale = 0.408248305 : f32, window = 0 : i64}
func.func @fused(%q: !q, %k: !k, %v: !k) -> !q {
  %0 = nn.onnx "Attention"(%q, %k, %v) {is_causal = 1 : i64} : (!q, !k, !k) -> !q
  return %0 : !q
}

// A band around the diagonal is a window at either side.
// CHECK-LABEL: @band
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg2) {bidirectional, scale = 1.000000e+00 : f32, window = 3 : i64}
func.func @band(%q: !q, %k: !k, %v: !k) -> !q {
  %mask = nn.band_mask {window = 3 : i64} : tensor<8x8xi1>
  %0 = nn.onnx "Attention"(%q, %k, %v, %mask) {scale = 1.0 : f32} : (!q, !k, !k, tensor<8x8xi1>) -> !q
  return %0 : !q
}

// One of an attention that is causal beside it is its window.
// CHECK-LABEL: @causal_band
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg2) {scale = 1.000000e+00 : f32, window = 3 : i64}
func.func @causal_band(%q: !q, %k: !k, %v: !k) -> !q {
  %mask = nn.band_mask {window = 3 : i64} : tensor<8x8xi1>
  %0 = nn.onnx "Attention"(%q, %k, %v, %mask) {is_causal = 1 : i64, scale = 1.0 : f32} : (!q, !k, !k, tensor<8x8xi1>) -> !q
  return %0 : !q
}

// What sees everything is said to; whether a model may, flattening knows.
// CHECK-LABEL: @everything
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg2) {bidirectional, scale = 1.000000e+00 : f32, window = 0 : i64}
func.func @everything(%q: !q, %k: !k, %v: !k) -> !q {
  %two = nn.constant dense<2.0> : !s : !s
  %0 = nn.onnx "Mul"(%q, %two) : (!q, !s) -> !q
  %1 = nn.onnx "Attention"(%0, %k, %v) {is_causal = 0 : i64, scale = 0.5 : f32} : (!q, !k, !k) -> !q
  return %1 : !q
}

// So is a formula without a mask.
// CHECK-LABEL: @everything_by_formula
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {bidirectional, scale = 5.000000e-01 : f32, window = 0 : i64}
// CHECK-NEXT: return
func.func @everything_by_formula(%q: !q, %k: !q) -> !q {
  %half = nn.constant dense<0.5> : !s : !s
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Mul"(%1, %half) : (!p, !s) -> !p
  %3 = nn.onnx "Softmax"(%2) : (!p) -> !p
  %4 = nn.onnx "MatMul"(%3, %k) : (!p, !q) -> !q
  return %4 : !q
}

// What is added to the scores is no mask, unless it is one.
// CHECK-LABEL: @with_a_bias
// CHECK: nn.onnx "Softmax"
func.func @with_a_bias(%q: !q, %k: !q, %bias: !p) -> !q {
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Add"(%1, %bias) : (!p, !p) -> !p
  %3 = nn.onnx "Softmax"(%2) : (!p) -> !p
  %4 = nn.onnx "MatMul"(%3, %k) : (!p, !q) -> !q
  return %4 : !q
}

// CHECK-LABEL: @window
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg2) {scale = 2.500000e-01 : f32, window = 3 : i64}
func.func @window(%q: !q, %k: !k, %v: !k) -> !q {
  %mask = nn.causal_mask {window = 3 : i64} : tensor<8x8xi1>
  %0 = nn.onnx "Attention"(%q, %k, %v, %mask) {is_causal = 0 : i64, scale = 0.25 : f32}
    : (!q, !k, !k, tensor<8x8xi1>) -> !q
  return %0 : !q
}

// The formula, with key and value heads repeated and the scale's root on q and k.
// CHECK-LABEL: @formula
// CHECK-NEXT: nn.onnx "Attention"(%arg0, %arg1, %arg2) {scale = 2.500000e-01 : f32, window = 0 : i64}
// CHECK-NEXT: return
func.func @formula(%q: !q, %k: !k, %v: !k) -> !q {
  %root = nn.constant dense<0.5> : !s : !s
  %zero = nn.constant dense<0.0> : !s : !s
  %mask = nn.causal_mask : tensor<1x1x8x8xf32>
  %0 = nn.onnx "Mul"(%q, %root) : (!q, !s) -> !q
  %1 = nn.onnx "Reshape"(%k) : (!k) -> tensor<2x2x1x8x6xf32>
  %2 = nn.onnx "Expand"(%1) : (tensor<2x2x1x8x6xf32>) -> tensor<2x2x2x8x6xf32>
  %3 = nn.onnx "Reshape"(%2) : (tensor<2x2x2x8x6xf32>) -> tensor<8x8x6xf32>
  %4 = nn.onnx "Transpose"(%3) {perm = array<i64: 0, 2, 1>} : (tensor<8x8x6xf32>) -> tensor<8x6x8xf32>
  %5 = nn.onnx "Reshape"(%4) : (tensor<8x6x8xf32>) -> tensor<2x4x6x8xf32>
  %6 = nn.onnx "Mul"(%5, %root) : (tensor<2x4x6x8xf32>, !s) -> tensor<2x4x6x8xf32>
  %7 = nn.onnx "MatMul"(%0, %6) : (!q, tensor<2x4x6x8xf32>) -> !p
  %8 = nn.onnx "Add"(%7, %mask) : (!p, tensor<1x1x8x8xf32>) -> !p
  %9 = nn.onnx "Softmax"(%8) : (!p) -> !p
  %10 = nn.onnx "IsNaN"(%9) : (!p) -> tensor<2x4x8x8xi1>
  %11 = nn.onnx "Where"(%10, %zero, %9) : (tensor<2x4x8x8xi1>, !s, !p) -> !p
  %12 = nn.onnx "Reshape"(%v) : (!k) -> tensor<2x2x1x8x6xf32>
  %13 = nn.onnx "Expand"(%12) : (tensor<2x2x1x8x6xf32>) -> tensor<2x2x2x8x6xf32>
  %14 = nn.onnx "Reshape"(%13) : (tensor<2x2x2x8x6xf32>) -> !q
  %15 = nn.onnx "MatMul"(%11, %14) : (!p, !q) -> !q
  return %15 : !q
}

// Heads repeated in another order are other heads: they stay repeated.
// CHECK-LABEL: @interleaved
// CHECK: nn.onnx "Expand"
// CHECK: %[[V:.*]] = nn.onnx "Reshape"
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %[[V]])
func.func @interleaved(%q: !q, %k: !q, %v: !k) -> !q {
  %mask = nn.causal_mask : tensor<8x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Add"(%1, %mask) : (!p, tensor<8x8xf32>) -> !p
  %3 = nn.onnx "Softmax"(%2) : (!p) -> !p
  %4 = nn.onnx "Reshape"(%v) : (!k) -> tensor<2x1x2x8x6xf32>
  %5 = nn.onnx "Expand"(%4) : (tensor<2x1x2x8x6xf32>) -> tensor<2x2x2x8x6xf32>
  %6 = nn.onnx "Reshape"(%5) : (tensor<2x2x2x8x6xf32>) -> !q
  %7 = nn.onnx "MatMul"(%3, %6) : (!p, !q) -> !q
  return %7 : !q
}

// A cap lies between the scaled products and the mask.
// CHECK-LABEL: @capped
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 5.000000e-01 : f32, softcap = 3.000000e+01 : f32, window = 0 : i64}
// CHECK-NEXT: return
func.func @capped(%q: !q, %k: !q) -> !q {
  %half = nn.constant dense<0.5> : !s : !s
  %cap = nn.constant dense<30.0> : !s : !s
  %hidden = nn.constant dense<-3.0e38> : !s : !s
  %mask = nn.causal_mask : tensor<8x8xi1>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Mul"(%1, %half) : (!p, !s) -> !p
  %3 = nn.onnx "Div"(%2, %cap) : (!p, !s) -> !p
  %4 = nn.onnx "Tanh"(%3) : (!p) -> !p
  %5 = nn.onnx "Mul"(%4, %cap) : (!p, !s) -> !p
  %6 = nn.onnx "Where"(%mask, %5, %hidden) : (tensor<8x8xi1>, !p, !s) -> !p
  %7 = nn.onnx "Softmax"(%6) : (!p) -> !p
  %8 = nn.onnx "MatMul"(%7, %k) : (!p, !q) -> !q
  return %8 : !q
}

// GPT-Neo masks twice, CodeGen scales what is masked: a key is seen where both masks show it.
// CHECK-LABEL: @masked_twice
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 5.000000e-01 : f32, window = 3 : i64}
// CHECK-NEXT: return
func.func @masked_twice(%q: !q, %k: !q) -> !q {
  %two = nn.constant dense<2.0> : !s : !s
  %hidden = nn.constant dense<-3.0e38> : !s : !s
  %near = nn.causal_mask {window = 3 : i64} : tensor<8x8xi1>
  %mask = nn.causal_mask : tensor<8x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Where"(%near, %1, %hidden) : (tensor<8x8xi1>, !p, !s) -> !p
  %3 = nn.onnx "Add"(%2, %mask) : (!p, tensor<8x8xf32>) -> !p
  %4 = nn.onnx "Div"(%3, %two) : (!p, !s) -> !p
  %5 = nn.onnx "Softmax"(%4) : (!p) -> !p
  %6 = nn.onnx "MatMul"(%5, %k) : (!p, !q) -> !q
  return %6 : !q
}

// Sinks are a last column beside the masked scores, which has no value.
// CHECK-LABEL: @with_sinks
// CHECK: %[[SINKS:.*]] = nn.read_parameter @sinks
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1, %[[SINKS]]) {scale = 5.000000e-01 : f32, window = 3 : i64}
// CHECK-NEXT: return
nn.parameter @sinks : tensor<4xf32>
func.func @with_sinks(%q: !q, %k: !q) -> !q {
  %half = nn.constant dense<0.5> : !s : !s
  %hidden = nn.constant dense<-3.0e38> : !s : !s
  %mask = nn.causal_mask {window = 3 : i64} : tensor<8x8xi1>
  %sinks = nn.read_parameter @sinks : tensor<4xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Mul"(%1, %half) : (!p, !s) -> !p
  %3 = nn.onnx "Where"(%mask, %2, %hidden) : (tensor<8x8xi1>, !p, !s) -> !p
  %4 = nn.onnx "Reshape"(%sinks) : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %5 = nn.onnx "Expand"(%4) : (tensor<1x4x1x1xf32>) -> tensor<2x4x8x1xf32>
  %6 = nn.onnx "Concat"(%3, %5) {axis = -1 : i64} : (!p, tensor<2x4x8x1xf32>) -> tensor<2x4x8x9xf32>
  %7 = nn.onnx "Softmax"(%6) : (tensor<2x4x8x9xf32>) -> tensor<2x4x8x9xf32>
  %8 = nn.onnx "Slice"(%7) {axis = 3 : i64, start = 0 : i64} : (tensor<2x4x8x9xf32>) -> !p
  %9 = nn.onnx "MatMul"(%8, %k) : (!p, !q) -> !q
  return %9 : !q
}

// What heads add to scores by position becomes their slopes: BLOOM has it in ONNX's sum, beside the mask.
// CHECK-LABEL: @slopes
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 5.000000e-01 : f32, slopes = array<f32: 1.000000e+00, 5.000000e-01, 2.500000e-01, 1.250000e-01>, window = 0 : i64}
// CHECK-NEXT: return
func.func @slopes(%q: !q, %k: !q) -> !q {
  %half = nn.constant dense<0.5> : !s : !s
  %mask = nn.causal_mask : tensor<1x1x8x8xf32>
  %bias = nn.position_bias {slopes = array<f32: 1.0, 0.5, 0.25, 0.125>} : tensor<4x1x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Mul"(%1, %half) : (!p, !s) -> !p
  %3 = nn.onnx "Add"(%2, %bias) : (!p, tensor<4x1x8xf32>) -> !p
  %4 = nn.onnx "Add"(%mask, %3) : (tensor<1x1x8x8xf32>, !p) -> !p
  %5 = nn.onnx "Softmax"(%4) : (!p) -> !p
  %6 = nn.onnx "MatMul"(%5, %k) : (!p, !q) -> !q
  return %6 : !q
}

// MPT hides keys where its mask is true. A factor around both is the bias's, too, which one slope may be for all heads.
// CHECK-LABEL: @slopes_within_a_factor
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 5.000000e-01 : f32, slopes = array<f32: 5.000000e-01, 5.000000e-01, 5.000000e-01, 5.000000e-01>, window = 3 : i64}
// CHECK-NEXT: return
func.func @slopes_within_a_factor(%q: !q, %k: !q) -> !q {
  %half = nn.constant dense<0.5> : !s : !s
  %hidden = nn.constant dense<-3.0e38> : !s : !s
  %mask = nn.causal_mask {window = 3 : i64} : tensor<8x8xi1>
  %hides = nn.onnx "Not"(%mask) : (tensor<8x8xi1>) -> tensor<8x8xi1>
  %bias = nn.position_bias {slopes = array<f32: 1.0>} : tensor<1x8x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Add"(%1, %bias) : (!p, tensor<1x8x8xf32>) -> !p
  %3 = nn.onnx "Mul"(%2, %half) : (!p, !s) -> !p
  %4 = nn.onnx "Where"(%hides, %hidden, %3) : (tensor<8x8xi1>, !s, !p) -> !p
  %5 = nn.onnx "Softmax"(%4) : (!p) -> !p
  %6 = nn.onnx "MatMul"(%5, %k) : (!p, !q) -> !q
  return %6 : !q
}

// Falcon adds both up before.
// CHECK-LABEL: @fused_slopes
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 2.500000e-01 : f32, slopes = array<f32: 1.000000e+00, 5.000000e-01, 2.500000e-01, 1.250000e-01>, window = 0 : i64}
func.func @fused_slopes(%q: !q, %k: !q) -> !q {
  %mask = nn.causal_mask : tensor<1x1x8x8xf32>
  %bias = nn.position_bias {slopes = array<f32: 1.0, 0.5, 0.25, 0.125>} : tensor<2x4x1x8xf32>
  %both = nn.onnx "Add"(%bias, %mask) : (tensor<2x4x1x8xf32>, tensor<1x1x8x8xf32>) -> !p
  %0 = nn.onnx "Attention"(%q, %k, %k, %both) {scale = 0.25 : f32} : (!q, !q, !q, !p) -> !q
  return %0 : !q
}

// A bias of other items than of all, or of a batch that is no part of the heads, is left alone.
// CHECK-LABEL: @bias_of_each_item
// CHECK: nn.onnx "Softmax"
func.func @bias_of_each_item(%q: !q, %k: !q) -> !q {
  %mask = nn.causal_mask : tensor<8x8xf32>
  %bias = nn.position_bias {slopes = array<f32: 1.0, 0.5, 0.25, 0.125, 1.0, 0.5, 0.25, 0.0625>} : tensor<8x1x8xf32>
  %parted = nn.onnx "Reshape"(%bias) : (tensor<8x1x8xf32>) -> tensor<2x4x1x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Add"(%1, %parted) : (!p, tensor<2x4x1x8xf32>) -> !p
  %3 = nn.onnx "Add"(%2, %mask) : (!p, tensor<8x8xf32>) -> !p
  %4 = nn.onnx "Softmax"(%3) : (!p) -> !p
  %5 = nn.onnx "MatMul"(%4, %k) : (!p, !q) -> !q
  return %5 : !q
}

// What sinks are beside is no longer up to what all keys of a query have in common.
// CHECK-LABEL: @slopes_and_sinks
// CHECK: nn.onnx "Softmax"
func.func @slopes_and_sinks(%q: !q, %k: !q) -> !q {
  %mask = nn.causal_mask : tensor<8x8xf32>
  %sinks = nn.read_parameter @sinks : tensor<4xf32>
  %bias = nn.position_bias {slopes = array<f32: 1.0, 0.5, 0.25, 0.125>} : tensor<4x1x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Add"(%1, %bias) : (!p, tensor<4x1x8xf32>) -> !p
  %3 = nn.onnx "Add"(%2, %mask) : (!p, tensor<8x8xf32>) -> !p
  %4 = nn.onnx "Reshape"(%sinks) : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %5 = nn.onnx "Expand"(%4) : (tensor<1x4x1x1xf32>) -> tensor<2x4x8x1xf32>
  %6 = nn.onnx "Concat"(%3, %5) {axis = -1 : i64} : (!p, tensor<2x4x8x1xf32>) -> tensor<2x4x8x9xf32>
  %7 = nn.onnx "Softmax"(%6) : (tensor<2x4x8x9xf32>) -> tensor<2x4x8x9xf32>
  %8 = nn.onnx "Slice"(%7) {axis = 3 : i64, start = 0 : i64} : (tensor<2x4x8x9xf32>) -> !p
  %9 = nn.onnx "MatMul"(%8, %k) : (!p, !q) -> !q
  return %9 : !q
}

// A bias alone is left to what hides later keys.
// CHECK-LABEL: @fused_bias
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 2.500000e-01 : f32, slopes = array<f32: 1.000000e+00, 5.000000e-01, 2.500000e-01, 1.250000e-01>, window = 0 : i64}
// CHECK: nn.onnx "Attention"({{.*}}) {is_causal = 0 : i64}
func.func @fused_bias(%q: !q, %k: !q) -> (!q, !q) {
  %bias = nn.position_bias {slopes = array<f32: 1.0, 0.5, 0.25, 0.125>} : tensor<4x1x8xf32>
  %0 = nn.onnx "Attention"(%q, %k, %k, %bias) {is_causal = 1 : i64, scale = 0.25 : f32} : (!q, !q, !q, tensor<4x1x8xf32>) -> !q
  %1 = nn.onnx "Attention"(%q, %k, %k, %bias) {is_causal = 0 : i64} : (!q, !q, !q, tensor<4x1x8xf32>) -> !q
  return %0, %1 : !q, !q
}

// GPT multiplies what it hides by 0 first.
// CHECK-LABEL: @multiplied_mask
// CHECK: nn.onnx "Attention"(%arg0, %arg1, %arg1) {scale = 1.000000e+00 : f32, window = 0 : i64}
// CHECK-NEXT: return
func.func @multiplied_mask(%q: !q, %k: !q) -> !q {
  %visible = nn.causal_mask : tensor<1x1x8x8xi1>
  %mask = nn.causal_mask : tensor<1x1x8x8xf32>
  %factor = nn.onnx "Cast"(%visible) : (tensor<1x1x8x8xi1>) -> tensor<1x1x8x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Mul"(%1, %factor) : (!p, tensor<1x1x8x8xf32>) -> !p
  %3 = nn.onnx "Add"(%2, %mask) : (!p, tensor<1x1x8x8xf32>) -> !p
  %4 = nn.onnx "Softmax"(%3) : (!p) -> !p
  %5 = nn.onnx "MatMul"(%4, %k) : (!p, !q) -> !q
  return %5 : !q
}

// Keys whose scores are 0 are no hidden ones.
// CHECK-LABEL: @factor_of_a_window
// CHECK: nn.onnx "Softmax"
func.func @factor_of_a_window(%q: !q, %k: !q) -> !q {
  %near = nn.causal_mask {window = 3 : i64} : tensor<1x1x8x8xi1>
  %mask = nn.causal_mask : tensor<1x1x8x8xf32>
  %factor = nn.onnx "Cast"(%near) : (tensor<1x1x8x8xi1>) -> tensor<1x1x8x8xf32>
  %0 = nn.onnx "Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (!q) -> tensor<2x4x6x8xf32>
  %1 = nn.onnx "MatMul"(%q, %0) : (!q, tensor<2x4x6x8xf32>) -> !p
  %2 = nn.onnx "Mul"(%1, %factor) : (!p, tensor<1x1x8x8xf32>) -> !p
  %3 = nn.onnx "Add"(%2, %mask) : (!p, tensor<1x1x8x8xf32>) -> !p
  %4 = nn.onnx "Softmax"(%3) : (!p) -> !p
  %5 = nn.onnx "MatMul"(%4, %k) : (!p, !q) -> !q
  return %5 : !q
}
