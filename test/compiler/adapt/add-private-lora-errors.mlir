// SPDX-License-Identifier: Apache-2.0
// RUN: split-file %s %t
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=0 targets=q" 2>&1 | FileCheck %s --check-prefix=DOWN
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-up=-1 targets=q" 2>&1 | FileCheck %s --check-prefix=UP
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=5 rank-up=2 targets=q,k" 2>&1 | FileCheck %s --check-prefix=INPUTS
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=2 rank-up=5 targets=k,q" 2>&1 | FileCheck %s --check-prefix=OUTPUTS
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=q,k,out" 2>&1 | FileCheck %s --check-prefix=AFTER
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=q,up" 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=table" 2>&1 | FileCheck %s --check-prefix=HEAD
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=q first-layer=1 last-layer=2" 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: not mebp-opt %t/model.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=q first-layer=2 last-layer=3" 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: not mebp-opt %t/twice.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=k" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not mebp-opt %t/shared.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=q" 2>&1 | FileCheck %s --check-prefix=SHARED
// RUN: not mebp-opt %t/missing.mlir --mebp-add-private-lora="rank-down=2 rank-up=2 targets=q" 2>&1 | FileCheck %s --check-prefix=MISSING

// DOWN: error: --rank-down 0: give a rank of at least 1{{$}}
// UP: error: --rank-up -1: give a rank of at least 1{{$}}
// INPUTS: error: --rank-down 5 is above the width of 'model.layers.0.q' (4 x 4): give at most 4{{$}}
// The width of k's result would do.
// OUTPUTS: error: --rank-up 5 is above the width of 'model.layers.0.q' (4 x 4): give at most 4{{$}}
// AFTER: error: --lora-targets: 'model.layers.0.out' reads what 'model.layers.0.q' gives; private-lora adapts layers that can be asked at once, such as q_proj,k_proj,v_proj{{$}}
// UNMATCHED: error: --lora-targets: 'up' matches no linear layer; there are q, k, out{{$}}
// The head is in no layer.
// HEAD: error: --lora-targets: 'table' matches no linear layer; there are q, k, out{{$}}
// LAST: error: --split-layers 1-2: the model has layers 0 to 1{{$}}
// FIRST: error: --split-layers 2-3: the model has layers 0 to 1{{$}}
// TWICE: error: --lora-targets: 'model.layers.0.k' is used in several places, which would need one adapter for all of them; leave it out{{$}}
// SHARED: error: --lora-targets: 'model.layers.0.q' is used in several places, which would need one adapter for all of them; leave it out{{$}}
// MISSING: error: 'train.block' op has no function 'forward'

//--- model.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
!k = tensor<?x?x6xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @"model.layers.0.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.0.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.0.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.0.out.weight" : tensor<4x6xf32>
nn.parameter @"model.layers.1.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.1.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.1.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.1.out.weight" : tensor<4x6xf32>
train.block layer @layers.0 parameters ("norm.weight" = @"model.layers.0.norm.weight", "q.weight" = @"model.layers.0.q.weight", "k.weight" = @"model.layers.0.k.weight", "out.weight" = @"model.layers.0.out.weight") programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block layer @layers.1 parameters ("norm.weight" = @"model.layers.1.norm.weight", "q.weight" = @"model.layers.1.q.weight", "k.weight" = @"model.layers.1.k.weight", "out.weight" = @"model.layers.1.out.weight") programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
//--- twice.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
!k = tensor<?x?x6xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @"model.layers.0.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.0.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.0.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.0.out.weight" : tensor<4x6xf32>
nn.parameter @"model.layers.1.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.1.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.1.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.1.out.weight" : tensor<4x6xf32>
train.block layer @layers.0 parameters ("norm.weight" = @"model.layers.0.norm.weight", "q.weight" = @"model.layers.0.q.weight", "k.weight" = @"model.layers.0.k.weight", "out.weight" = @"model.layers.0.out.weight") programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %5 = nn.linear(%0, %k addend %2) : (!x, tensor<6x4xf32>, !k) -> !k
  %3 = nn.linear(%5, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block layer @layers.1 parameters ("norm.weight" = @"model.layers.1.norm.weight", "q.weight" = @"model.layers.1.q.weight", "k.weight" = @"model.layers.1.k.weight", "out.weight" = @"model.layers.1.out.weight") programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
//--- shared.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
!k = tensor<?x?x6xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @"model.layers.0.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.0.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.0.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.0.out.weight" : tensor<4x6xf32>
nn.parameter @"model.layers.1.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.1.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.1.out.weight" : tensor<4x6xf32>
train.block layer @layers.0 parameters ("norm.weight" = @"model.layers.0.norm.weight", "q.weight" = @"model.layers.0.q.weight", "k.weight" = @"model.layers.0.k.weight", "out.weight" = @"model.layers.0.out.weight") programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block layer @layers.1 parameters ("norm.weight" = @"model.layers.1.norm.weight", "q.weight" = @"model.layers.0.q.weight", "k.weight" = @"model.layers.1.k.weight", "out.weight" = @"model.layers.1.out.weight") programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
//--- missing.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
!k = tensor<?x?x6xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @"model.layers.0.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.0.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.0.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.0.out.weight" : tensor<4x6xf32>
nn.parameter @"model.layers.1.norm.weight" : tensor<4xf32>
nn.parameter @"model.layers.1.q.weight" : tensor<4x4xf32>
nn.parameter @"model.layers.1.k.weight" : tensor<6x4xf32>
nn.parameter @"model.layers.1.out.weight" : tensor<4x6xf32>
train.block layer @layers.0 parameters ("norm.weight" = @"model.layers.0.norm.weight", "q.weight" = @"model.layers.0.q.weight", "k.weight" = @"model.layers.0.k.weight", "out.weight" = @"model.layers.0.out.weight") programs {}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block layer @layers.1 parameters ("norm.weight" = @"model.layers.1.norm.weight", "q.weight" = @"model.layers.1.q.weight", "k.weight" = @"model.layers.1.k.weight", "out.weight" = @"model.layers.1.out.weight") programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %q: tensor<4x4xf32> {train.port = #train.port<parameter, "q.weight">},
    %k: tensor<6x4xf32> {train.port = #train.port<parameter, "k.weight">},
    %out: tensor<4x6xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %q) : (!x, tensor<4x4xf32>) -> !x
  %2 = nn.linear(%0, %k) : (!x, tensor<6x4xf32>) -> !k
  %3 = nn.linear(%2, %out addend %1) : (!k, tensor<4x6xf32>, !x) -> !x
  return %3 : !x
}
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
