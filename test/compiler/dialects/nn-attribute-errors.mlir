// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.softcap' op has a softcap of 0.000000e+00; a number above 0 is needed}}
  %0 = nn.softcap(%x) {softcap = 0.0 : f32} : (!x) -> !x
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.attention' op has a softcap of -1.000000e+00; a number above 0 is needed}}
  %0, %1 = nn.attention(%x, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, softcap = -1.0 : f32} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.split' op has 2 groups, which do not divide the 1 features of a part}}
  %0:2 = nn.split(%x) {groups = 2 : i64} : (!x) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x3xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%p: tensor<64x4xf32>) {
  // expected-error @below {{'nn.position_embedding' op begins with row 64 of a table of 64}}
  %0 = nn.position_embedding(%p) {offset = 64 : i64} : (tensor<64x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.clamp' op has no bounds; give 'lower', 'upper' or both}}
  %0 = nn.clamp(%x) : (!x) -> !x
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.clamp' op has a bound of INF; leave it out}}
  %0 = nn.clamp(%x) {lower = 0.0 : f32, upper = 0x7F800000 : f32} : (!x) -> !x
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.clamp_gradient' op has bounds 2.000000e+00 and 1.000000e+00, which leave no number between them}}
  %0 = nn.clamp_gradient(%x, %x) {lower = 2.0 : f32, upper = 1.0 : f32} : (!x, !x) -> !x
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.attention' op has 1 slopes for 2 heads; give one for each}}
  %0, %1 = nn.attention(%x, %x, %x) {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.0 : f32, slopes = array<f32: 0.5>} : (!x, !x, !x) -> (!x, tensor<?x?x2xf32, #nn.tokens>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.attention' op has slopes and a softcap; give one of them}}
  %0, %1 = nn.attention(%x, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, softcap = 2.0 : f32, slopes = array<f32: 0.5>} : (!x, !x, !x) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
!lse = tensor<?x?x1xf32, #nn.tokens>
func.func @f(%x: !x, %lse: !lse) {
  // expected-error @below {{'nn.attention_gradient' op has a slope that is not finite}}
  %0:3 = nn.attention_gradient(%x, %x, %x, %x, %lse, %x) {heads = 1 : i64, kv_heads = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>, scale = 1.0 : f32, slopes = array<f32: 0x7F800000>} : (!x, !x, !x, !x, !lse, !x) -> (!x, !x, !x)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.dropout' op has a p of 1.000000e+00; a number from 0 to below 1 is needed}}
  %0 = nn.dropout(%x) {p = 1.0 : f32, salt = 0 : i64} : (!x) -> !x
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x) {
  // expected-error @below {{'nn.dropout' op has a p of -5.000000e-01; a number from 0 to below 1 is needed}}
  %0 = nn.dropout(%x) {p = -0.5 : f32, salt = 0 : i64} : (!x) -> !x
  return
}
