// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-attach-objective --verify-diagnostics

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @bias : tensor<50xf32>
train.block head @head parameters ("table" = @table, "bias" = @bias) programs {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer without a bias}}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %b: tensor<50xf32> {train.port = #train.port<parameter, "bias">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %1 = nn.linear(%x, %w bias %b) : (!x, tensor<50x4xf32>, tensor<50xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %1 : tensor<?x?x50xf32, #nn.tokens>
}

// -----

!x = tensor<?x?x4xf32, #nn.tokens>
train.block head @head parameters () programs {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer without a bias}}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<result, "logits">}) {
  %1 = nn.silu(%x) : (!x) -> !x
  return %1 : !x
}

// -----

// expected-error @below {{'train.block' op has no function 'forward'}}
train.block head @head parameters () programs {}

// -----

// The loss would leave another reader of the logits without them.
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @table : tensor<4x4xf32>
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer without a bias}}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "table">}) -> (!x {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.silu(%0) : (!x) -> !x
  return %0 : !x
}
