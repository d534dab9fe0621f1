// SPDX-License-Identifier: Apache-2.0
// RUN: split-file %s %t
// RUN: not mebp-opt %t/model.mlir --mebp-add-token-rows="beside='--train full'" 2>&1 | FileCheck %s --check-prefix=FULL
// RUN: not mebp-opt %t/model.mlir --mebp-add-token-rows 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: not mebp-opt %t/adapted.mlir --mebp-add-token-rows 2>&1 | FileCheck %s --check-prefix=ADAPTED
// RUN: not mebp-opt %t/parts.mlir --mebp-add-token-rows 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: not mebp-opt %t/short.mlir --mebp-add-token-rows 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: not mebp-opt %t/none.mlir --mebp-add-token-rows 2>&1 | FileCheck %s --check-prefix=NONE

// FULL: error: --train-tokens trains rows of new tokens beside LoRA, which --train full is not; leave one of them out
// PLACE: error: 'head.weight' has no rows of new tokens in a place of their own; export the model again
// ADAPTED: error: --train-tokens and --lora-targets both adapt the head 'head'; leave it out of --lora-targets
// PARTS: error: --train-tokens: 'table' is read in parts, a part for each layer, which cannot be trained yet; leave it out
// SHORT: error: 'head.weight' lacks rows of new tokens; export the model again
// NONE: error: --train-tokens: the model has no table with rows of its tokens; leave it out

//--- model.mlir
module attributes {mebp.new_tokens = array<i64: 4, 2>, mebp.vocabulary = 6 : i64} {
nn.parameter @head.weight : tensor<6x4xf32> {data = #nn.external<"m", 0, 48, "bf16">}
func.func private @head.forward(%x: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
    %w: tensor<6x4xf32> {train.port = #train.port<parameter, "head.weight">}) -> (tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (tensor<?x?x4xf32, #nn.tokens>, tensor<6x4xf32>) -> tensor<?x?x6xf32, #nn.tokens>
  return %0 : tensor<?x?x6xf32, #nn.tokens>
}
train.block head @head parameters ("head.weight" = @head.weight) programs {forward = @head.forward}
}

//--- adapted.mlir
module attributes {mebp.new_tokens = array<i64: 4, 2>, mebp.vocabulary = 6 : i64} {
nn.parameter @head.weight : tensor<6x4xf32>
func.func private @head.forward(%x: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
    %w: tensor<6x4xf32> {train.port = #train.port<parameter, "head.weight">}) -> (tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (tensor<?x?x4xf32, #nn.tokens>, tensor<6x4xf32>) -> tensor<?x?x6xf32, #nn.tokens>
  %1 = nn.linear(%x, %w addend %0) : (tensor<?x?x4xf32, #nn.tokens>, tensor<6x4xf32>, tensor<?x?x6xf32, #nn.tokens>) -> tensor<?x?x6xf32, #nn.tokens>
  return %1 : tensor<?x?x6xf32, #nn.tokens>
}
train.block head @head parameters ("head.weight" = @head.weight) programs {forward = @head.forward}
}

//--- parts.mlir
module attributes {mebp.new_tokens = array<i64: 4, 2>, mebp.vocabulary = 6 : i64} {
nn.parameter @table : tensor<6x8xf32>
func.func private @embed.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<6x8xf32> {train.port = #train.port<parameter, "table">},
    %part: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<flow, "part">}) -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.embedding(%ids, %w, %part) : (tensor<?x?x1xi32, #nn.tokens>, tensor<6x8xf32>, tensor<?x?x1xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return %0 : tensor<?x?x4xf32, #nn.tokens>
}
train.block embed @embed parameters ("table" = @table) programs {forward = @embed.forward}
}

//--- short.mlir
module attributes {mebp.new_tokens = array<i64: 5, 2>, mebp.vocabulary = 6 : i64} {
nn.parameter @head.weight : tensor<6x4xf32>
func.func private @head.forward(%x: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">},
    %w: tensor<6x4xf32> {train.port = #train.port<parameter, "head.weight">}) -> (tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (tensor<?x?x4xf32, #nn.tokens>, tensor<6x4xf32>) -> tensor<?x?x6xf32, #nn.tokens>
  return %0 : tensor<?x?x6xf32, #nn.tokens>
}
train.block head @head parameters ("head.weight" = @head.weight) programs {forward = @head.forward}
}

//--- none.mlir
module attributes {mebp.new_tokens = array<i64: 4, 2>, mebp.vocabulary = 6 : i64} {
func.func private @embed.forward(%x: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  return %x : tensor<?x?x4xf32, #nn.tokens>
}
train.block embed @embed parameters () programs {forward = @embed.forward}
}
