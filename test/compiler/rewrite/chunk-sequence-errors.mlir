// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-chunk-sequence=size=16 --split-input-file --verify-diagnostics

// An op that does not say which rows it uses.
!x = tensor<?x?x4xf32, #nn.tokens>
train.block layer @unknown parameters () programs {forward = @unknown.forward}
func.func private @unknown.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error@below {{'nn.onnx' op does not say which rows of tokens it uses, so it cannot run in chunks}}
  %y = nn.onnx "CumSum"(%x) : (!x) -> !x
  return %y : !x
}

// -----

// A sum that its kernel cannot carry from chunk to chunk.
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @w : tensor<50x4xf32>
train.block layer @sum parameters ("w" = @w) programs {forward = @sum.forward}
func.func private @sum.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "w">},
    %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">}, %scale: tensor<1x1xf32> {train.port = #train.port<batch, "scale">}) -> (tensor<1x1xf32> {train.port = #train.port<result, "loss">}) {
  // expected-error@below {{adds up rows in result 0 and cannot go on from an earlier chunk's sum}}
  %loss = nn.linear_cross_entropy(%x, %w, %labels, %scale) : (!x, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<1x1xf32>) -> tensor<1x1xf32>
  return %loss : tensor<1x1xf32>
}

// -----

// A sum over all rows that every chunk would read.
!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>
train.block layer @early parameters () programs {forward = @early.forward}
func.func private @early.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %dw = nn.linear_weight_gradient(%x, %x) : (!x, !x) -> !w
  %half = nn.add(%dw, %dw) : (!w, !w) -> !w
  // expected-error@below {{reads a sum over all rows, which is complete only after the last chunk}}
  %y = nn.linear(%x, %half) : (!x, !w) -> !x
  return %y : !x
}

// -----

// Rows that later chunks still add to, read whole.
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
train.block layer @unfinished parameters () programs {forward = @unfinished.forward}
func.func private @unfinished.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %o, %lse = nn.attention(%x, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  %dq, %dk, %dv = "nn.attention_gradient"(%x, %x, %x, %o, %lse, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>} : (!x, !x, !x, !x, !l, !x) -> (!x, !x, !x)
  // expected-error@below {{reads the rows of other chunks, which are still added to}}
  %y, %l = nn.attention(%dq, %dk, %dv) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  return %y : !x
}

// -----

// An accumulator that is itself made chunk by chunk.
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
train.block layer @moving parameters () programs {forward = @moving.forward}
func.func private @moving.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %o, %lse = nn.attention(%x, %x, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  // expected-error@below {{adds to rows that are computed chunk by chunk}}
  %dq, %dk, %dv = "nn.attention_gradient"(%x, %x, %x, %o, %lse, %x, %o, %o) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>} : (!x, !x, !x, !x, !l, !x, !x, !x) -> (!x, !x, !x)
  return %dk : !x
}
