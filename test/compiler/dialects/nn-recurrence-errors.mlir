// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x, %w: tensor<4x1xf32>) {
  // expected-error @below {{has a width of 1; at least 2 is needed}}
  %y, %next = nn.causal_conv(%x, %w) : (!x, tensor<4x1xf32>) -> (!x, tensor<0x4xf32>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x, %w: tensor<4x3xf32>) {
  // expected-error @below {{carries 3 rows beside a width of 3}}
  %y, %next = nn.causal_conv(%x, %w) : (!x, tensor<4x3xf32>) -> (!x, tensor<3x4xf32>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x, %w: tensor<4x3xf32>) {
  // expected-error @below {{carries 1 rows beside a width of 3}}
  %y, %next = nn.causal_conv_input_gradient(%x, %w) : (!x, tensor<4x3xf32>) -> (!x, tensor<1x4xf32>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x, %rate: tensor<3xf32>) {
  // expected-error @below {{has 3 rates, which do not divide the 4 features of 'x'}}
  %y = nn.softplus(%x rate %rate) : (!x, tensor<3xf32>) -> !x
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
!h = tensor<?x?x2xf32, #nn.tokens>
func.func @f(%x: !x, %h: !h) {
  // expected-error @below {{has 2 heads and 4 key heads, which do not divide features or each other}}
  %o, %s, %m = nn.gated_delta(%x, %x, %x, %h, %h) {heads = 2 : i64, kv_heads = 4 : i64, scale = 1.0 : f32} : (!x, !x, !x, !h, !h) -> (!x, tensor<1x8xf32>, tensor<?x8xf32>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
!h = tensor<?x?x2xf32, #nn.tokens>
func.func @f(%x: !x, %h: !h) {
  // expected-error @below {{'next' has size 16 where 8 is needed}}
  %o, %s, %m = nn.gated_delta(%x, %x, %x, %h, %h) {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.0 : f32} : (!x, !x, !x, !h, !h) -> (!x, tensor<1x16xf32>, tensor<?x16xf32>)
  return
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
func.func @f(%x: !x, %w: tensor<4x129xf32>) {
  // expected-error @below {{has a width of 129; kernels have room for 128}}
  %y, %next = nn.causal_conv(%x, %w) : (!x, tensor<4x129xf32>) -> (!x, tensor<128x4xf32>)
  return
}

// -----

!x = tensor<?x?x257xf32, #nn.tokens>
!h = tensor<?x?x1xf32, #nn.tokens>
func.func @f(%x: !x, %h: !h) {
  // expected-error @below {{has keys of 257; kernels have room for 256}}
  %o, %s, %m = nn.gated_delta(%x, %x, %x, %h, %h) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x, !h, !h) -> (!x, tensor<1x66049xf32>, tensor<?x66049xf32>)
  return
}

// -----

!x = tensor<?x?x256xf32, #nn.tokens>
!h = tensor<?x?x1xf32, #nn.tokens>
func.func @f(%x: !x, %h: !h) {
  // expected-error @below {{has a state of 65536; kernels have room for 32768}}
  %o, %s, %m = nn.gated_delta(%x, %x, %x, %h, %h) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x, !h, !h) -> (!x, tensor<1x65536xf32>, tensor<?x65536xf32>)
  return
}
