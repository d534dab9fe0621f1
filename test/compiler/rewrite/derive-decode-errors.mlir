// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-derive-decode --split-input-file --verify-diagnostics

// An op that does not say which rows it uses.
!x = tensor<?x?x4xf32, #nn.tokens>
train.block layer @unknown parameters () programs {forward = @unknown.forward}
func.func private @unknown.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error@below {{'nn.onnx' op does not say which rows of tokens it uses, so it cannot generate text}}
  %y = nn.onnx "CumSum"(%x) : (!x) -> !x
  return %y : !x
}

// -----

// A sum over tokens that are not there yet.
!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>
train.block layer @sum parameters () programs {forward = @sum.forward}
func.func private @sum.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error@below {{computes more than rows of its own, so it cannot generate text one token after another}}
  %dw = nn.linear_weight_gradient(%x, %x) : (!x, !x) -> !w
  %y = nn.linear(%x, %dw) : (!x, !w) -> !x
  return %y : !x
}

// -----

// A layer that reads keys of no layer before it, or of one that keeps other positions.
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x1xf32, #nn.tokens>
train.block layer @reader parameters () programs {forward = @reader.forward}
func.func private @reader.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %k: !x {train.port = #train.port<shared, "shared.0">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  // expected-error@below {{reads other positions of 'shared.0' than the layer that makes it keeps, so it cannot generate text}}
  %y, %lse = nn.attention(%x, %k, %k) {heads = 1 : i64, kv_heads = 1 : i64, scale = 1.0 : f32} : (!x, !x, !x) -> (!x, !l)
  return %y : !x
}
