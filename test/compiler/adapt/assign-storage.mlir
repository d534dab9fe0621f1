// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-assign-storage | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: mebp-opt %s --mebp-assign-storage="matrices=f32 embeddings=bf16" | FileCheck %s --check-prefixes=CHECK,GIVEN
// RUN: mebp-opt %s --mebp-assign-storage="rules=*.0.*=bf16,lm_head=int4-sym" | FileCheck %s --check-prefixes=CHECK,RULES
// RUN: mebp-opt %s --mebp-assign-storage="rules=layers.1.up.weight=int8,*.up=int8" | FileCheck %s --check-prefixes=CHECK,AGREE
// RUN: mebp-opt %s --mebp-assign-storage="rules=*.0.*=bf16" --mebp-share-functions | FileCheck %s --check-prefix=SHARED

// DEFAULT: nn.parameter @table : tensor<50x4xf32> {aliases = ["lm_head.weight"], storage = "int8"}
// GIVEN: nn.parameter @table : {{.*}} storage = "bf16"}
// An alias is a name, too.
// RULES: nn.parameter @table : {{.*}} storage = "int4-sym"}
nn.parameter @table : tensor<50x4xf32> {aliases = ["lm_head.weight"]}
// DEFAULT: nn.parameter @layers.0.up.weight : tensor<4x4xf32> {storage = "int4"}
// GIVEN: nn.parameter @layers.0.up.weight : tensor<4x4xf32> {storage = "f32"}
// RULES: nn.parameter @layers.0.up.weight : tensor<4x4xf32> {storage = "bf16"}
// AGREE: nn.parameter @layers.0.up.weight : tensor<4x4xf32> {storage = "int8"}
nn.parameter @layers.0.up.weight : tensor<4x4xf32>
// A vector is f32, whatever the rules say.
// CHECK: nn.parameter @layers.0.up.bias : tensor<4xf32> {storage = "f32"}
nn.parameter @layers.0.up.bias : tensor<4xf32>
// DEFAULT: nn.parameter @layers.1.up.weight : tensor<4x4xf32> {storage = "int4"}
// RULES: nn.parameter @layers.1.up.weight : tensor<4x4xf32> {storage = "int4"}
// AGREE: nn.parameter @layers.1.up.weight : tensor<4x4xf32> {storage = "int8"}
nn.parameter @layers.1.up.weight : tensor<4x4xf32>
nn.parameter @layers.1.up.bias : tensor<4xf32>
// What is trained whole is f32, and so is what it begins with.
// DEFAULT: nn.parameter @classifier.weight : tensor<2x4xf32> {storage = "f32", whole}
nn.parameter @classifier.weight : tensor<2x4xf32> {whole}
// What is trained is not stored here.
// CHECK: nn.parameter @trained : tensor<2x4xf32> {trainable}
nn.parameter @trained : tensor<2x4xf32> {trainable}

// Layers that are not stored alike have functions of their own.
// SHARED: train.block layer @l0 {{.*}} programs {forward = @layer.0.forward}
// SHARED: train.block layer @l1 {{.*}} programs {forward = @layer.1.forward}
!x = tensor<?x?x4xf32, #nn.tokens>
train.block embed @embed parameters ("table" = @table) programs {forward = @embed.forward}
func.func private @embed.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> !x
  return %0 : !x
}
train.block layer @l0 parameters ("up.weight" = @layers.0.up.weight, "up.bias" = @layers.0.up.bias) programs {forward = @l0.forward}
func.func private @l0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %b: tensor<4xf32> {train.port = #train.port<parameter, "up.bias">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %w bias %b) : (!x, tensor<4x4xf32>, tensor<4xf32>) -> !x
  return %0 : !x
}
train.block layer @l1 parameters ("up.weight" = @layers.1.up.weight, "up.bias" = @layers.1.up.bias) programs {forward = @l1.forward}
func.func private @l1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %b: tensor<4xf32> {train.port = #train.port<parameter, "up.bias">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %w bias %b) : (!x, tensor<4x4xf32>, tensor<4xf32>) -> !x
  return %0 : !x
}
