// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s | mebp-opt | FileCheck %s
// RUN: mebp-opt %s --mlir-print-op-generic | mebp-opt | FileCheck %s

// CHECK: nn.parameter @model.embed.weight : tensor<50x8xf32> {aliases = ["lm_head.weight"]
// CHECK-SAME: data = #nn.external<"model.safetensors", 8, 800, "bf16">
nn.parameter @"model.embed.weight" : tensor<50x8xf32>
    {aliases = ["lm_head.weight"], data = #nn.external<"model.safetensors", 8, 800, "bf16">}
// CHECK: nn.parameter @small : tensor<2xf32> {inline_data = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>, transposed}
nn.parameter @small : tensor<2xf32> {inline_data = dense<[1.0, 2.0]> : tensor<2xf32>, transposed}
// CHECK: nn.parameter @adapter : tensor<2x8xf32> {initial_bound = 5.000000e-01 : f32, trainable}
nn.parameter @adapter : tensor<2x8xf32> {initial_bound = 0.5 : f32, trainable}

// CHECK-LABEL: func.func @optional_operands
func.func @optional_operands(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<8x8xf32>, %b: tensor<8xf32>, %dw: tensor<8x8xf32>) {
  // CHECK: nn.linear(%{{.*}}, %{{.*}}) : (tensor<?x?x8xf32, #nn.tokens>, tensor<8x8xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  %0 = nn.linear(%x, %w) : (tensor<?x?x8xf32, #nn.tokens>, tensor<8x8xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  // CHECK: nn.linear(%{{.*}}, %{{.*}} bias %{{.*}}) :
  %1 = nn.linear(%x, %w bias %b) : (tensor<?x?x8xf32, #nn.tokens>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  // CHECK: nn.linear(%{{.*}}, %{{.*}} addend %{{.*}}) {alpha = 2.000000e+00 : f32} :
  %2 = nn.linear(%x, %w addend %0) {alpha = 2.0 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<8x8xf32>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  // CHECK: nn.linear(%{{.*}}, %{{.*}} bias %{{.*}} addend %{{.*}}) :
  %3 = nn.linear(%x, %w bias %b addend %0) : (tensor<?x?x8xf32, #nn.tokens>, tensor<8x8xf32>, tensor<8xf32>, tensor<?x?x8xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  // CHECK: nn.linear_weight_gradient(%{{.*}}, %{{.*}}, %{{.*}}) :
  %4 = nn.linear_weight_gradient(%x, %x, %dw) : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x8xf32, #nn.tokens>, %k: tensor<?x?x4xf32, #nn.tokens>) {
  // CHECK: %[[O:.*]], %[[LSE:.*]] = nn.attention({{.*}}) {heads = 4 : i64, kv_heads = 2 : i64, scale = 5.000000e-01 : f32, window = 3 : i64}
  %o, %lse = nn.attention(%q, %k, %k) {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.5 : f32, window = 3 : i64}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
  // CHECK: nn.attention_gradient({{.*}}, {{.*}}, {{.*}}, %[[O]], %[[LSE]], %[[O]]) {{.*}}array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>
  %dq, %dk, %dv = nn.attention_gradient(%q, %k, %k, %o, %lse, %o) {heads = 4 : i64, kv_heads = 2 : i64, scale = 0.5 : f32,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>)
      -> (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>)
  return
}
