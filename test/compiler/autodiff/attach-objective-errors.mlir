// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-attach-objective --verify-diagnostics

!x = tensor<?x?x4xf32, #nn.tokens>
train.block head @head parameters () programs {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer, with or without a softcap}}
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
// expected-error @below {{the logits must come from a linear layer, with or without a softcap}}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "table">}) -> (!x {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.silu(%0) : (!x) -> !x
  return %0 : !x
}

// -----

// An addend that is no product of low rank.
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x50xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer, with or without a softcap}}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (!l {train.port = #train.port<result, "logits">}) {
  %0 = nn.fill() {value = 1.0 : f32} : () -> !l
  %1 = nn.linear(%x, %w addend %0) : (!x, tensor<50x4xf32>, !l) -> !l
  return %1 : !l
}

// -----

// A product that has a bias of its own.
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x50xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @b : tensor<50x4xf32>
nn.parameter @bias : tensor<50xf32>
train.block head @head parameters ("table" = @table, "b" = @b, "bias" = @bias) programs {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer, with or without a softcap}}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %b: tensor<50x4xf32> {train.port = #train.port<parameter, "b">},
    %bias: tensor<50xf32> {train.port = #train.port<parameter, "bias">}) -> (!l {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %b bias %bias) : (!x, tensor<50x4xf32>, tensor<50xf32>) -> !l
  %1 = nn.linear(%x, %w addend %0) : (!x, tensor<50x4xf32>, !l) -> !l
  return %1 : !l
}

// -----

// A product that another value is added to.
!x = tensor<?x?x4xf32, #nn.tokens>
!l = tensor<?x?x50xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @b : tensor<50x4xf32>
train.block head @head parameters ("table" = @table, "b" = @b) programs {forward = @head.forward}
// expected-error @below {{the logits must come from a linear layer, with or without a softcap}}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %b: tensor<50x4xf32> {train.port = #train.port<parameter, "b">}) -> (!l {train.port = #train.port<result, "logits">}) {
  %0 = nn.fill() {value = 1.0 : f32} : () -> !l
  %1 = nn.linear(%x, %b addend %0) : (!x, tensor<50x4xf32>, !l) -> !l
  %2 = nn.linear(%x, %w addend %1) : (!x, tensor<50x4xf32>, !l) -> !l
  return %2 : !l
}
