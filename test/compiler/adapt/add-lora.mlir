// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-add-lora="rank=2 alpha=8 targets=all-linear" | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: mebp-opt %s --mebp-add-lora="rank=2 targets=up" | FileCheck %s --check-prefixes=SUFFIX
// RUN: mebp-opt %s --mebp-add-lora="rank=2 targets=model.layers.0.down,up" | FileCheck %s --check-prefixes=FULL
// RUN: mebp-opt %s --mebp-add-lora="rank=4 targets=down" | FileCheck %s --check-prefixes=RANK4
// RUN: mebp-opt %s --mebp-add-lora="rank=4 alpha=8 rslora targets=down" | FileCheck %s --check-prefixes=ROOT
// RUN: mebp-opt %s --mebp-add-lora="rank=2 alpha=8 targets=table,up" | FileCheck %s --check-prefixes=HEAD
// RUN: mebp-opt %s --mebp-add-lora="rank=2 alpha=8 targets=all-linear dropout=0.25" | FileCheck %s --check-prefixes=DROPOUT

// PEFT's keys, shapes and initial values: A is uniform in +-1/sqrt(inputs), B is 0.
// ALL: module attributes {mebp.lora = {alpha = 8.000000e+00 : f32, rank = 2 : i64, target_modules = ["up", "down"]}}
// SUFFIX: target_modules = ["up"]
// One of the two layers named down is left alone, so its end would say too much.
// FULL: target_modules = ["up", "model.layers.0.down"]
// RANK4: rank = 4 : i64
// Rank-stabilised, 8 / sqrt(4).
// ROOT: mebp.lora = {alpha = 1.600000e+01 : f32, rank = 4 : i64, rslora_alpha = 8.000000e+00 : f32, target_modules
// ROOT: {alpha = 4.000000e+00 : f32}
// ROOT-NOT: {alpha = 2.000000e+00 : f32}

// CHECK: nn.parameter @base_model.model.model.layers.0.up.lora_A.weight : tensor<2x4xf32> {initial_bound = 5.000000e-01 : f32, trainable}
// CHECK: nn.parameter @base_model.model.model.layers.0.up.lora_B.weight : tensor<9x2xf32> {initial_bound = 0.000000e+00 : f32, trainable}
// CHECK: nn.parameter @base_model.model.model.layers.0.down.lora_A.weight : tensor<2x9xf32> {initial_bound = 0.333333343 : f32, trainable}
// CHECK: nn.parameter @base_model.model.model.layers.0.down.lora_B.weight : tensor<4x2xf32>
// CHECK: train.block layer @layers.0 parameters ("up.weight" = @model.layers.0.up.weight,
// CHECK-SAME: "up.bias" = @model.layers.0.up.bias, "down.weight" = @model.layers.0.down.weight,
// CHECK-SAME: "up.lora_A.weight" = @base_model.model.model.layers.0.up.lora_A.weight,
// CHECK-SAME: "up.lora_B.weight" = @base_model.model.model.layers.0.up.lora_B.weight,
// CHECK-SAME: "down.lora_A.weight" = @base_model.model.model.layers.0.down.lora_A.weight,
// CHECK-SAME: "down.lora_B.weight" = @base_model.model.model.layers.0.down.lora_B.weight)
// CHECK: func.func private @layers.0.forward(%[[X:.*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
// CHECK-SAME: %[[UP:[^ ]*]]: tensor<9x4xf32> {train.port = #train.port<parameter, "up.weight">},
// CHECK-SAME: %[[BIAS:[^ ]*]]: tensor<9xf32> {train.port = #train.port<parameter, "up.bias">},
// CHECK-SAME: %[[DOWN:[^ ]*]]: tensor<4x9xf32> {train.port = #train.port<parameter, "down.weight">},
// CHECK-SAME: %[[A:[^ ]*]]: tensor<2x4xf32> {train.port = #train.port<parameter, "up.lora_A.weight">, train.trainable},
// CHECK-SAME: %[[B:[^ ]*]]: tensor<9x2xf32> {train.port = #train.port<parameter, "up.lora_B.weight">, train.trainable},
// CHECK-NEXT: %[[H:.*]] = nn.linear(%[[X]], %[[A]]) : (tensor<?x?x4xf32, #nn.tokens>, tensor<2x4xf32>) -> tensor<?x?x2xf32, #nn.tokens>
// CHECK-NEXT: %[[LOW:.*]] = nn.linear(%[[H]], %[[B]]) {alpha = 4.000000e+00 : f32}
// CHECK-NEXT: nn.linear(%[[X]], %[[UP]] bias %[[BIAS]] addend %[[LOW]])
// An addend that is there already goes to the low-rank layer.
// CHECK: %[[LOW:.*]] = nn.linear(%{{.*}}, %{{.*}} addend %[[X]]) {alpha = 4.000000e+00 : f32}
// CHECK-NEXT: nn.linear(%{{.*}}, %[[DOWN]] addend %[[LOW]])
// CHECK: train.block layer @layers.1
// CHECK-SAME: @base_model.model.model.layers.1.down.lora_B.weight)
// CHECK: return

// SUFFIX-NOT: down.lora
// SUFFIX: nn.parameter @base_model.model.model.layers.0.up.lora_A.weight
// SUFFIX-NOT: down.lora
// SUFFIX: nn.parameter @base_model.model.model.layers.1.up.lora_A.weight
// SUFFIX-NOT: down.lora

// FULL: nn.parameter @base_model.model.model.layers.0.up.lora_A.weight
// FULL: nn.parameter @base_model.model.model.layers.0.down.lora_A.weight
// FULL: nn.parameter @base_model.model.model.layers.1.up.lora_A.weight
// FULL-NOT: nn.parameter @base_model.model.model.layers.1.down.lora_A.weight

// A rank may be the whole width.
// RANK4: nn.parameter @base_model.model.model.layers.0.down.lora_A.weight : tensor<4x9xf32>

// The head has one by its name alone, which PEFT's targets then list.
// HEAD: target_modules = ["up", "table"]
// HEAD: nn.parameter @base_model.model.table.lora_A.weight : tensor<2x4xf32> {initial_bound = 5.000000e-01 : f32, trainable}
// HEAD: nn.parameter @base_model.model.table.lora_B.weight : tensor<50x2xf32> {initial_bound = 0.000000e+00 : f32, trainable}
// HEAD: train.block head @head parameters ("table" = @table, "table.lora_A.weight" = @base_model.model.table.lora_A.weight,
// HEAD: func.func private @head.forward(
// HEAD: %[[LOW:.*]] = nn.linear({{.*}}) {alpha = 4.000000e+00 : f32} : {{.*}} -> tensor<?x?x50xf32, #nn.tokens>
// HEAD-NEXT: nn.linear({{.*}} addend %[[LOW]])

// A alone reads dropout(x). Those of a block have numbers, which begin again in the next.
// DROPOUT: module attributes {mebp.lora = {alpha = 8.000000e+00 : f32, dropout = 2.500000e-01 : f32, rank = 2 : i64,
// DROPOUT: func.func private @layers.0.forward(%[[X:[^:]*]]:
// DROPOUT-NEXT: %[[D:.*]] = nn.dropout(%[[X]]) {p = 2.500000e-01 : f32, salt = 0 : i64}
// DROPOUT-NEXT: %[[H:.*]] = nn.linear(%[[D]],
// DROPOUT-NEXT: %[[LOW:.*]] = nn.linear(%[[H]],
// DROPOUT-NEXT: nn.linear(%[[X]], {{.*}} addend %[[LOW]])
// DROPOUT-NEXT: %[[S:.*]] = nn.silu(
// DROPOUT-NEXT: nn.dropout(%[[S]]) {p = 2.500000e-01 : f32, salt = 1 : i64}
// DROPOUT: func.func private @layers.1.forward(
// DROPOUT-NEXT: nn.dropout(%{{.*}}) {p = 2.500000e-01 : f32, salt = 0 : i64}

// The head is not among all linear layers, tied or not.
// CHECK-NOT: lora
// CHECK: train.block head @head parameters ("table" = @table)

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @table : tensor<50x4xf32>
nn.parameter @"model.layers.0.up.weight" : tensor<9x4xf32>
nn.parameter @"model.layers.0.up.bias" : tensor<9xf32>
nn.parameter @"model.layers.0.down.weight" : tensor<4x9xf32>
nn.parameter @"model.layers.1.up.weight" : tensor<9x4xf32>
nn.parameter @"model.layers.1.up.bias" : tensor<9xf32>
nn.parameter @"model.layers.1.down.weight" : tensor<4x9xf32>
train.block layer @layers.0 parameters ("up.weight" = @"model.layers.0.up.weight", "up.bias" = @"model.layers.0.up.bias", "down.weight" = @"model.layers.0.down.weight")
    programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %up: tensor<9x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %bias: tensor<9xf32> {train.port = #train.port<parameter, "up.bias">},
    %down: tensor<4x9xf32> {train.port = #train.port<parameter, "down.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %up bias %bias) : (!x, tensor<9x4xf32>, tensor<9xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  %1 = nn.silu(%0) : (tensor<?x?x9xf32, #nn.tokens>) -> tensor<?x?x9xf32, #nn.tokens>
  %2 = nn.linear(%1, %down addend %x) : (tensor<?x?x9xf32, #nn.tokens>, tensor<4x9xf32>, !x) -> !x
  return %2 : !x
}
train.block layer @layers.1 parameters ("up.weight" = @"model.layers.1.up.weight", "up.bias" = @"model.layers.1.up.bias", "down.weight" = @"model.layers.1.down.weight")
    programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %up: tensor<9x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %bias: tensor<9xf32> {train.port = #train.port<parameter, "up.bias">},
    %down: tensor<4x9xf32> {train.port = #train.port<parameter, "down.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %up bias %bias) : (!x, tensor<9x4xf32>, tensor<9xf32>) -> tensor<?x?x9xf32, #nn.tokens>
  %1 = nn.linear(%0, %down) : (tensor<?x?x9xf32, #nn.tokens>, tensor<4x9xf32>) -> !x
  return %1 : !x
}
train.block head @head parameters ("table" = @table) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
