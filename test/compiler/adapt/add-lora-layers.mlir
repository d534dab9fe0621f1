// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-add-lora="rank=2 targets=up last-layers=1" --mebp-share-functions --mebp-attach-objective --mebp-differentiate-blocks | FileCheck %s
// RUN: mebp-opt %s --mebp-add-lora="rank=2 targets=all-linear from-layer=0 to-layer=1" | FileCheck %s --check-prefix=RANGE
// RUN: mebp-opt %s --mebp-train-parameters="targets=*up*,norm.weight last-layers=1" | FileCheck %s --check-prefix=FULL
// RUN: not mebp-opt %s --mebp-add-lora="rank=2 targets=up last-layers=4" 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: echo 'module attributes {mebp.text_part = "model.text"} {}' > %t && not mebp-opt %t --mebp-add-lora="rank=2 last-layers=1" 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not mebp-opt %s --mebp-add-lora="rank=2 targets=up from-layer=2 to-layer=3" 2>&1 | FileCheck %s --check-prefix=NONE

// One backward alone, without a cotangent of its input: the layers below have none.
// CHECK: mebp.lora = {{.*}}first_layer = 2 : i64, layer_count = 1 : i64, layers_pattern = "layers", {{.*}}target_modules = ["up"]
// CHECK: train.block layer @layers.0 {{.*}} programs {forward = @layer.0.forward}
// CHECK: train.block layer @layers.1 {{.*}} programs {forward = @layer.0.forward}
// CHECK: train.block layer @layers.2 {{.*}} programs {backward = @layer.1.backward.partial, forward = @layer.1.forward}
// CHECK-NOT: hidden.cotangent{{.*}}->{{.*}}hidden.cotangent{{.*}}gradient
// RANGE: first_layer = 0 : i64, layer_count = 2 : i64
// RANGE-NOT: layers.2.up.lora_A
// RANGE: nn.parameter @base_model.model.layers.1.up.lora_B.weight
// RANGE-NOT: layers.2.up.lora_A
// FULL: nn.parameter @norm.weight : {{.*}}trainable}
// FULL: nn.parameter @layers.0.up.weight : tensor<4x4xf32> {storage = "bf16"}
// FULL: nn.parameter @layers.1.up.weight : tensor<4x4xf32> {storage = "bf16"}
// FULL: nn.parameter @layers.2.up.weight : {{.*}}trainable}
// PART: error: --lora-layers is not supported yet for the text of a model that takes more; leave it out{{$}}
// LAST: error: --lora-layers last:4: the model has 3 layers; give last:3 or fewer{{$}}
// NONE: error: --lora-layers 2-3: the model has layers 0 to 2; give numbers of these{{$}}

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @head.weight : tensor<50x4xf32> {storage = "f32"}
nn.parameter @norm.weight : tensor<4xf32> {storage = "f32"}
nn.parameter @layers.0.up.weight : tensor<4x4xf32> {storage = "bf16"}
nn.parameter @layers.1.up.weight : tensor<4x4xf32> {storage = "bf16"}
nn.parameter @layers.2.up.weight : tensor<4x4xf32> {storage = "bf16"}
train.block embed @embed parameters ("w" = @head.weight) programs {forward = @embed.forward}
func.func private @embed.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "w">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> !x
  return %0 : !x
}
train.block layer @layers.0 parameters ("up.weight" = @layers.0.up.weight) programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "up.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %u = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %y = nn.add(%x, %u) : (!x, !x) -> !x
  return %y : !x
}
train.block layer @layers.1 parameters ("up.weight" = @layers.1.up.weight) programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "up.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %u = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %y = nn.add(%x, %u) : (!x, !x) -> !x
  return %y : !x
}
train.block layer @layers.2 parameters ("up.weight" = @layers.2.up.weight) programs {forward = @layers.2.forward}
func.func private @layers.2.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "up.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %u = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %y = nn.add(%x, %u) : (!x, !x) -> !x
  return %y : !x
}
train.block head @head parameters ("w" = @head.weight, "norm" = @norm.weight) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "w">},
    %n: tensor<4xf32> {train.port = #train.port<parameter, "norm">})
    -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %h = nn.rms_norm(%x, %n) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %y = nn.linear(%h, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}
