// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-attach-objective --verify-diagnostics

!x = tensor<?x?x4xf32>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @bias : tensor<50xf32>
train.block head @head parameters [@table, @bias] {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer without a bias}}
func.func private @head.forward(%x: !x {train.role = "activation"},
    %w: tensor<50x4xf32> {train.parameter = 0 : i64, train.role = "parameter"},
    %b: tensor<50xf32> {train.parameter = 1 : i64, train.role = "parameter"}) -> (tensor<?x?x50xf32> {train.role = "logits"}) {
  %1 = nn.linear(%x, %w bias %b) : (!x, tensor<50x4xf32>, tensor<50xf32>) -> tensor<?x?x50xf32>
  return %1 : tensor<?x?x50xf32>
}

// -----

!x = tensor<?x?x4xf32>
train.block head @head parameters [] {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer without a bias}}
func.func private @head.forward(%x: !x {train.role = "activation"}) -> (!x {train.role = "logits"}) {
  %1 = nn.silu(%x) : (!x) -> !x
  return %1 : !x
}

// -----

// expected-error @below {{'train.block' op has no function 'forward'}}
train.block head @head parameters []

// -----

// The loss would leave another reader of the logits without them.
!x = tensor<?x?x4xf32>
nn.parameter @table : tensor<4x4xf32>
train.block head @head parameters [@table] {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer without a bias}}
func.func private @head.forward(%x: !x {train.role = "activation"},
    %w: tensor<4x4xf32> {train.parameter = 0 : i64, train.role = "parameter"}) -> (!x {train.role = "logits"}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.silu(%0) : (!x) -> !x
  return %0 : !x
}
