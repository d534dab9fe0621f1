// SPDX-License-Identifier: Apache-2.0
// RUN: split-file %s %t
// RUN: not mebp-opt %t/model.mlir --mebp-add-lora="rank=0 targets=all-linear" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not mebp-opt %t/model.mlir --mebp-add-lora="rank=-3 targets=all-linear" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not mebp-opt %t/model.mlir --mebp-add-lora="rank=5 targets=up" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not mebp-opt %t/model.mlir --mebp-add-lora="rank=2 targets=up,q_proj" 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// RUN: not mebp-opt %t/model.mlir --mebp-add-lora="rank=2 targets=own" 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not mebp-opt %t/model.mlir --mebp-add-lora="rank=2 targets=lm_head dropout=0.1" 2>&1 | FileCheck %s --check-prefix=HEAD
// RUN: not mebp-opt %t/twice.mlir --mebp-add-lora="rank=2 targets=all-linear" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not mebp-opt %t/none.mlir --mebp-add-lora="rank=2 targets=all-linear" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mebp-opt %t/missing.mlir --mebp-add-lora="rank=2 targets=all-linear" 2>&1 | FileCheck %s --check-prefix=MISSING

// ZERO: error: --lora-rank 0: give a rank of at least 1
// NEGATIVE: error: --lora-rank -3: give a rank of at least 1
// RANK: model.mlir:9:8: error: --lora-rank 5 is above the width of 'layers.0.up' (9 x 4): give at most 4
// UNMATCHED: error: --lora-targets: 'q_proj' matches no linear layer; there are up, down, lm_head (the head)
// A target is a whole name or ends one after a dot, as in PEFT.
// PART: error: --lora-targets: 'own' matches no linear layer; there are up, down, lm_head (the head)
// HEAD: error: --lora-dropout does not reach 'lm_head', which is the head; leave it out of --lora-targets, or leave out --lora-dropout
// TWICE: error: --lora-targets: 'layers.0.up' is used in several places, which would need one adapter for all of them; leave it out
// NONE: error: --lora-targets: 'all-linear' matches no linear layer; there are lm_head (the head)
// MISSING: error: 'train.block' op has no function 'forward'

//--- model.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @"layers.0.up.weight" : tensor<9x4xf32>
nn.parameter @"layers.0.down.weight" : tensor<4x9xf32>
nn.parameter @"lm_head.weight" : tensor<50x4xf32>
train.block layer @layer parameters ("up.weight" = @"layers.0.up.weight", "down.weight" = @"layers.0.down.weight") programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %up: tensor<9x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %down: tensor<4x9xf32> {train.port = #train.port<parameter, "down.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %up) : (!x, tensor<9x4xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  %1 = nn.linear(%0, %down) : (tensor<?x?x9xf32, #nn.tokens>, tensor<4x9xf32>) -> !x
  return %1 : !x
}
train.block head @head parameters ("lm_head.weight" = @"lm_head.weight") programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lm_head.weight">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
//--- twice.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @"layers.0.up.weight" : tensor<9x4xf32>
nn.parameter @"layers.0.down.weight" : tensor<4x9xf32>
nn.parameter @"lm_head.weight" : tensor<50x4xf32>
train.block layer @layer parameters ("up.weight" = @"layers.0.up.weight", "down.weight" = @"layers.0.down.weight") programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %up: tensor<9x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %down: tensor<4x9xf32> {train.port = #train.port<parameter, "down.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %up) : (!x, tensor<9x4xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  %1 = nn.linear(%0, %down) : (tensor<?x?x9xf32, #nn.tokens>, tensor<4x9xf32>) -> !x
  %2 = nn.linear(%1, %up) : (!x, tensor<9x4xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  %3 = nn.linear(%2, %down) : (tensor<?x?x9xf32, #nn.tokens>, tensor<4x9xf32>) -> !x
  return %3 : !x
}
train.block head @head parameters ("lm_head.weight" = @"lm_head.weight") programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lm_head.weight">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
//--- none.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @"lm_head.weight" : tensor<50x4xf32>
train.block head @head parameters ("lm_head.weight" = @"lm_head.weight") programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lm_head.weight">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
//--- missing.mlir
train.block layer @layer parameters () programs {}
