// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-flatten-tokens --split-input-file --verify-diagnostics
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> !x {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{ONNX op 'Exp' is not supported here: it is not part of any norm, rotary embedding, activation, linear layer or causal attention that is known}}
  %1 = nn.onnx "Exp"(%0) : (!x) -> !x
  return %1 : !x
}

// -----

// All that are left over are named, once each.
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> !x {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{attention that is known; nor are 'Erf', 'Sin'}}
  %1 = nn.onnx "Exp"(%0) : (!x) -> !x
  %2 = nn.onnx "Erf"(%1) : (!x) -> !x
  %3 = nn.onnx "Relu"(%2) : (!x) -> !x
  %4 = nn.onnx "Sin"(%3) : (!x) -> !x
  %5 = nn.onnx "Exp"(%4) : (!x) -> !x
  return %5 : !x
}

// -----

// Features in another order than the kernel's are not whole rows.
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x6x16xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Reshape"(%0) : (!x) -> tensor<2x6x2x4xf32>
  %2 = nn.onnx "Transpose"(%1) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x6x2x4xf32>) -> tensor<2x6x4x2xf32>
  %3 = nn.onnx "Reshape"(%2) : (tensor<2x6x4x2xf32>) -> !x
  // expected-error @below {{its input is not all features of each token}}
  %4 = nn.onnx "Linear"(%3, %table) {transposed = false} : (!x, tensor<16x8xf32>) -> tensor<2x6x16xf32>
  return %4 : tensor<2x6x16xf32>
}

// -----

!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x5x8xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{it takes a part of the batch or of the sequence; only features can be split}}
  %1 = nn.onnx "Slice"(%0) {axis = 1 : i64, start = 1 : i64} : (!x) -> tensor<2x5x8xf32>
  return %1 : tensor<2x5x8xf32>
}

// -----

!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!heads = tensor<2x2x6x4xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> !heads {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Reshape"(%0) : (!x) -> tensor<2x6x2x4xf32>
  %2 = nn.onnx "Transpose"(%1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x6x2x4xf32>) -> !heads
  // expected-error @below {{every token sees the later ones; only causal attention can be trained}}
  %3 = nn.onnx "Attention"(%2, %2, %2) {is_causal = 0 : i64} : (!heads, !heads, !heads) -> !heads
  return %3 : !heads
}

// -----

!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
nn.parameter @gain : tensor<8xf32>
func.func @main(%ids: !ids) -> !x {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %gain = nn.read_parameter @gain : tensor<8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{it combines an activation with 'gain', which is neither the weight of a norm nor the bias of a linear layer}}
  %1 = nn.onnx "Mul"(%0, %gain) : (!x, tensor<8xf32>) -> !x
  return %1 : !x
}

// -----

!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x6x3xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{it takes elements of a part of an activation that lie 3 apart}}
  %1 = nn.onnx "Slice"(%0) {axis = 2 : i64, start = 0 : i64, step = 3 : i64} : (!x) -> tensor<2x6x3xf32>
  return %1 : tensor<2x6x3xf32>
}

// -----

// Of neither operand of a product alone may the order of features change.
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> !x {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{it parts rotated pairs, and that not of queries and keys alike}}
  %1 = nn.onnx "RotaryEmbedding"(%0) {apart, frequencies = array<f32: 1.0>, interleaved = 1 : i64, position_axis = -2 : i64} : (!x) -> !x
  return %1 : !x
}

// -----

!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x12x8xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{only features can be joined}}
  %1 = nn.onnx "Concat"(%0, %0) {axis = 1 : i64} : (!x, !x) -> tensor<2x12x8xf32>
  return %1 : tensor<2x12x8xf32>
}

// -----

!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x6x4x4xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Reshape"(%0) : (!x) -> tensor<2x6x2x4xf32>
  %2 = nn.onnx "Transpose"(%1) {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x6x2x4xf32>) -> tensor<2x6x4x2xf32>
  // expected-error @below {{its inputs are not features of each head}}
  %3 = nn.onnx "Concat"(%2, %2) {axis = 3 : i64} : (tensor<2x6x4x2xf32>, tensor<2x6x4x2xf32>) -> tensor<2x6x4x4xf32>
  return %3 : tensor<2x6x4x4xf32>
}

// -----

// Heads on axes that differ.
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x6x4x2x4xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Reshape"(%0) : (!x) -> tensor<2x6x4x1x2xf32>
  %2 = nn.onnx "Expand"(%1) : (tensor<2x6x4x1x2xf32>) -> tensor<2x6x4x2x2xf32>
  // expected-error @below {{its inputs are not features of the same heads}}
  %3 = nn.onnx "Concat"(%2, %2) {axis = 4 : i64} : (tensor<2x6x4x2x2xf32>, tensor<2x6x4x2x2xf32>) -> tensor<2x6x4x2x4xf32>
  return %3 : tensor<2x6x4x2x4xf32>
}

// -----

// Heads, of which some are the same for the whole batch.
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!bthd = tensor<2x6x2x4xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> tensor<2x6x4x4xf32> {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  %1 = nn.onnx "Reshape"(%0) : (!x) -> !bthd
  %positions = nn.positions : tensor<1x6xi64>
  %2 = nn.onnx "Gather"(%table, %positions) {axis = 0 : i64} : (tensor<16x8xf32>, tensor<1x6xi64>) -> tensor<1x6x8xf32>
  %3 = nn.onnx "Expand"(%2) : (tensor<1x6x8xf32>) -> !x
  %4 = nn.onnx "Reshape"(%3) : (!x) -> !bthd
  // expected-error @below {{its inputs do not lie alike}}
  %5 = nn.onnx "Concat"(%1, %4) {axis = 2 : i64} : (!bthd, !bthd) -> tensor<2x6x4x4xf32>
  return %5 : tensor<2x6x4x4xf32>
}

// -----

!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
nn.parameter @table : tensor<16x8xf32>
func.func @main(%ids: !ids) -> !x {
  %table = nn.read_parameter @table : tensor<16x8xf32>
  %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
  // expected-error @below {{ONNX op 'ArgMax' is not supported here: it does not choose experts as any router that is known}}
  %1 = nn.onnx "ArgMax"(%0) : (!x) -> tensor<2x6x1xi64>
  return %0 : !x
}
