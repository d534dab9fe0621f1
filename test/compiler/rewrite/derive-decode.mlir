// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-derive-decode="positions=256 rows=10 batch=2" | FileCheck %s
// RUN: mebp-opt %s --mebp-derive-decode="positions=256 rows=10 batch=2" --mebp-chunk-sequence=size=16 --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values | FileCheck %s --check-prefix=EXEC

!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
!i = tensor<?x?x1xi32, #nn.tokens>
!w = tensor<4x4xf32>
!t = tensor<9x4xf32>
nn.parameter @w : !w
nn.parameter @table : !t

// The embedding needs nothing of earlier tokens; it has as many rows as a step of generation.
// CHECK: train.block embed @embed {{.*}}decode = @embed.decode
// CHECK: func.func private @embed.decode(
// CHECK-NOT: #train.port<state
// CHECK-SAME: train.rows = 10
// EXEC: exec.program @embed.decode
// EXEC: tensor<10x4xf32, #exec.extent<tokens, whole>>
train.block embed @embed parameters ("table" = @table) programs {forward = @embed.forward}
func.func private @embed.forward(%ids: !i {train.port = #train.port<batch, "ids">},
    %w: !t {train.port = #train.port<parameter, "table">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.embedding(%ids, %w) : (!i, !t) -> !x
  return %y : !x
}

// Keys and values are kept: of every position, or of a window and the step's other rows in whole tiles of 64 keys. What
// two ops read is kept once, for the one that looks back further; what one op reads has one capacity.
// CHECK: func.func private @layer.decode(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {{[^%]*}}%[[W:[^ ]*]]: tensor<4x4xf32>
// CHECK-SAME: %[[K:[^ ]*]]: tensor<?x256x4xf32, #nn.tokens> {train.port = #train.port<state, "k">}
// CHECK-SAME: %[[V:[^ ]*]]: tensor<?x256x4xf32, #nn.tokens> {train.port = #train.port<state, "v">}
// CHECK-SAME: %[[V2:[^ ]*]]: tensor<?x256x4xf32, #nn.tokens> {train.port = #train.port<state, "v.1">}
// CHECK-SAME: %[[RING:[^ ]*]]: tensor<?x64x4xf32, #nn.tokens> {train.port = #train.port<state, "k.1">}
// CHECK: %[[KC:.*]] = nn.linear(%[[X]], %[[W]])
// CHECK-NEXT: %[[K1:.*]] = nn.append(%[[K]], %[[KC]]) {capacity = 256 : i64}
// CHECK-NEXT: %[[VC:.*]] = nn.scale(%[[X]])
// CHECK-NEXT: %[[V1:.*]] = nn.append(%[[V]], %[[VC]]) {capacity = 256 : i64}
// CHECK: %[[RC:.*]] = nn.scale(%[[X]]) {alpha = 5
// CHECK-NEXT: %[[R1:.*]] = nn.append(%[[RING]], %[[RC]]) {capacity = 64 : i64}
// CHECK: nn.attention({{[^,]*}}, %[[R1]], %[[R1]]) {capacity = 64 : i64, {{.*}}window = 5
// EXEC: exec.program @layer.decode
// EXEC-SAME: #train.port<state, "k">, #train.port<state, "v">, #train.port<state, "v.1">, #train.port<state, "k.1">
// EXEC: exec.kernel "append"({{.*}} (tensor<512x4xf32>, tensor<10x4xf32, #exec.extent<tokens, whole>>) -> tensor<512x4xf32>
// EXEC: exec.kernel "append"({{.*}} (tensor<128x4xf32>, tensor<10x4xf32, #exec.extent<tokens, whole>>) -> tensor<128x4xf32>
train.block layer @layer parameters ("w" = @w) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: !w {train.port = #train.port<parameter, "w">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %k = nn.linear(%x, %w) : (!x, !w) -> !x
  %v = nn.scale(%x) {alpha = 3.0 : f32} : (!x) -> !x
  %z = nn.scale(%x) {alpha = 4.0 : f32} : (!x) -> !x
  %o, %lse = nn.attention(%x, %k, %v) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, window = 5 : i64} : (!x, !x, !x) -> (!x, !l)
  %p, %lsf = nn.attention(%o, %k, %z) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %r = nn.scale(%x) {alpha = 5.0 : f32} : (!x) -> !x
  %q, %lsg = nn.attention(%p, %r, %r) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, window = 5 : i64} : (!x, !x, !x) -> (!x, !l)
  return %q : !x
}

// Text has no dropout.
// CHECK: func.func private @dropping.decode(%[[X:[^:]*]]:
// CHECK-NOT: nn.dropout
// CHECK: nn.linear(%[[X]],
train.block layer @dropping parameters ("w" = @w) programs {forward = @dropping.forward}
func.func private @dropping.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: !w {train.port = #train.port<parameter, "w">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %d = nn.dropout(%x) {p = 0.5 : f32, salt = 0 : i64} : (!x) -> !x
  %y = nn.linear(%d, %w) : (!x, !w) -> !x
  return %y : !x
}

// The head gives logits for one row of each sequence.
// CHECK: func.func private @head.decode_logits(
// CHECK-SAME: train.rows = 2
train.block head @head parameters ("table" = @table) programs {logits = @head.logits}
func.func private @head.logits(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: !t {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x9xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %y = nn.linear(%x, %w) : (!x, !t) -> tensor<?x?x9xf32, #nn.tokens>
  return %y : tensor<?x?x9xf32, #nn.tokens>
}
