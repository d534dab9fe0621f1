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
