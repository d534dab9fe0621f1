// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op has 3 heads, which 2 key and value heads do not divide}}
  %0, %1 = nn.attention(%q, %q, %q) {heads = 3 : i64, kv_heads = 2 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x3xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op has 0 heads, which 0 key and value heads do not divide}}
  %0, %1 = nn.attention(%q, %q, %q) {heads = 0 : i64, kv_heads = 0 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x3xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op has 5 heads, which do not divide the 12 features of 'q'}}
  %0, %1 = nn.attention(%q, %q, %q) {heads = 5 : i64, kv_heads = 5 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x5xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>, %k: tensor<?x?x8xf32, #nn.tokens>, %v: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op 'k' has size 8 where 6 is needed}}
  %0, %1 = nn.attention(%q, %k, %v) {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>, %k: tensor<?x?x6xf32, #nn.tokens>, %v: tensor<?x?x8xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op 'o' has size 12 where 16 is needed}}
  %0, %1 = nn.attention(%q, %k, %v) {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x6xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>, %k: tensor<?x?x6xf32, #nn.tokens>, %v: tensor<?x?x5xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op has 2 heads, which do not divide the 5 features of 'v'}}
  %0, %1 = nn.attention(%q, %k, %v) {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x6xf32, #nn.tokens>, tensor<?x?x5xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op 'o' has size 8 where 12 is needed}}
  %0, %1 = nn.attention(%q, %q, %q) {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention' op 'lse' has size 12 where 4 is needed}}
  %0, %1 = nn.attention(%q, %q, %q) {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.5 : f32}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>, %lse: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention_gradient' op has one of its two accumulators; give both or none}}
  %0:3 = nn.attention_gradient(%q, %q, %q, %q, %lse, %q, %q) {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.5 : f32,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0, 0>}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>,
         tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>, %lse: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention_gradient' op 'lse' has size 12 where 4 is needed}}
  %0:3 = nn.attention_gradient(%q, %q, %q, %q, %q, %q) {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.5 : f32,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>,
         tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%q: tensor<?x?x12xf32, #nn.tokens>, %lse: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.attention_gradient' op 'dk' has size 4 where 12 is needed}}
  %0:3 = nn.attention_gradient(%q, %q, %q, %q, %lse, %q) {heads = 4 : i64, kv_heads = 4 : i64, scale = 0.5 : f32,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>}
      : (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>,
         tensor<?x?x12xf32, #nn.tokens>) -> (tensor<?x?x12xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x12xf32, #nn.tokens>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
!s = tensor<?x64x4xf32, #nn.tokens>
func.func @f(%x: !x, %s: !s) {
  // expected-error @below {{has a capacity of 0 beside 'tensor<?x64x4xf32, #nn.tokens>'}}
  %0, %1 = nn.attention(%x, %s, %s) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !s, !s) -> (!x, tensor<?x?x1xf32, #nn.tokens>)
  return
}
