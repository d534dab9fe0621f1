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
  %dq, %dk, %dv = "nn.attention_gradient"(%x, %x, %x, %o, %lse, %x) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0, 0>} : (!x, !x, !x, !x, !l, !x) -> (!x, !x, !x)
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
  %dq, %dk, %dv = "nn.attention_gradient"(%x, %x, %x, %o, %lse, %x, %o, %o) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 0>} : (!x, !x, !x, !x, !l, !x, !x, !x) -> (!x, !x, !x)
  return %dk : !x
}

// -----

// A state is what carries it on, and nothing else's.
!x = tensor<?x?x4xf32, #nn.tokens>
train.block layer @used parameters () programs {forward = @used.forward}
func.func private @used.forward(%x: !x {train.port = #train.port<flow, "hidden">}, %w: tensor<4x3xf32>) -> (!x {train.port = #train.port<flow, "hidden">}, tensor<2x4xf32>) {
  // expected-error@below {{has a use of its state, result 1, beside what carries it on}}
  %y, %next = nn.causal_conv(%x, %w) : (!x, tensor<4x3xf32>) -> (!x, tensor<2x4xf32>)
  return %y, %next : !x, tensor<2x4xf32>
}
