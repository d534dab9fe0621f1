// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-flatten-tokens | FileCheck %s

// Of an encoder, attention may see all tokens; all are of one type; and tanh is a cap of 1.
// CHECK: func.func @main(%[[IDS:.*]]: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x3xf32, #nn.tokens>
// CHECK: %[[TYPES:.*]] = nn.read_parameter @types
// CHECK: %[[X:.*]] = nn.embedding(%[[IDS]], %{{.*}})
// CHECK: %[[TYPE:.*]] = nn.repeat_row(%[[TYPES]]) {offset = 1 : i64}
// CHECK: %[[SUM:.*]] = nn.add(%[[X]], %[[TYPE]])
// CHECK: %[[O:.*]], %{{.*}} = nn.bidirectional_attention(%[[SUM]], %[[SUM]], %[[SUM]]) {heads = 2 : i64, kv_heads = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, scale = 5.000000e-01 : f32}
// CHECK: %[[T:.*]] = nn.softcap(%[[O]]) {softcap = 1.000000e+00 : f32}
// CHECK: nn.linear(%[[T]], %{{.*}})
!ids = tensor<2x6xi64>
!x = tensor<2x6x8xf32>
!heads = tensor<2x2x6x4xf32>
module attributes {mebp.task = "classify"} {
  nn.parameter @table : tensor<16x8xf32>
  nn.parameter @types : tensor<2x8xf32>
  nn.parameter @head : tensor<3x8xf32>
  func.func @main(%ids: !ids) -> tensor<2x6x3xf32> {
    %table = nn.read_parameter @table : tensor<16x8xf32>
    %types = nn.read_parameter @types : tensor<2x8xf32>
    %head = nn.read_parameter @head : tensor<3x8xf32>
    %ones = nn.constant dense<1> : !ids : !ids
    %0 = nn.onnx "Gather"(%table, %ids) {axis = 0 : i64} : (tensor<16x8xf32>, !ids) -> !x
    %1 = nn.onnx "Gather"(%types, %ones) {axis = 0 : i64} : (tensor<2x8xf32>, !ids) -> !x
    %2 = nn.onnx "Add"(%0, %1) : (!x, !x) -> !x
    %3 = nn.onnx "Reshape"(%2) : (!x) -> tensor<2x6x2x4xf32>
    %4 = nn.onnx "Transpose"(%3) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x6x2x4xf32>) -> !heads
    %5 = nn.onnx "Attention"(%4, %4, %4) {bidirectional, scale = 0.5 : f32, window = 0 : i64} : (!heads, !heads, !heads) -> !heads
    %6 = nn.onnx "Transpose"(%5) {perm = array<i64: 0, 2, 1, 3>} : (!heads) -> tensor<2x6x2x4xf32>
    %7 = nn.onnx "Reshape"(%6) : (tensor<2x6x2x4xf32>) -> tensor<12x1x8xf32>
    %8 = nn.onnx "Reshape"(%7) : (tensor<12x1x8xf32>) -> tensor<12x8xf32>
    %9 = nn.onnx "Tanh"(%8) : (tensor<12x8xf32>) -> tensor<12x8xf32>
    %10 = nn.onnx "Linear"(%9, %head) {transposed = false} : (tensor<12x8xf32>, tensor<3x8xf32>) -> tensor<12x3xf32>
    %11 = nn.onnx "Reshape"(%10) : (tensor<12x3xf32>) -> tensor<2x6x3xf32>
    return %11 : tensor<2x6x3xf32>
  }
}
