// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-train-parameters="targets=all-linear" | FileCheck %s --check-prefixes=CHECK,LINEAR
// RUN: mebp-opt %s --mebp-train-parameters="targets=*norm*,layers.0.up" | FileCheck %s --check-prefixes=CHECK,NAMED
// RUN: mebp-opt %s --mebp-train-parameters="targets=table" | FileCheck %s --check-prefixes=CHECK,ALIAS
// RUN: mebp-opt %s --mebp-train-parameters="targets=layers.0.up,*bias,layers.*.norm" --mebp-attach-objective --mebp-differentiate-blocks | FileCheck %s --check-prefix=BACKWARD

// CHECK: nn.parameter @head.weight
// ALIAS-SAME: trainable
// CHECK: nn.parameter @layers.0.up.weight
// LINEAR-SAME: storage = "bf16", trainable
// NAMED-SAME: trainable
// ALIAS-NOT: trainable
// CHECK: nn.parameter @layers.0.up.bias
// LINEAR-NOT: trainable
// NAMED-NOT: trainable
// CHECK: nn.parameter @layers.0.norm.weight
// NAMED-SAME: trainable

// Each has its gradient, named as the block has it, and nothing else has.
// BACKWARD-LABEL: func.func private @layer.backward.partial(
// BACKWARD-SAME: #train.port<gradient, "norm.weight">
// BACKWARD-SAME: #train.port<gradient, "up.weight">
// BACKWARD-SAME: #train.port<gradient, "up.bias">
// BACKWARD-NOT: #train.port<gradient
// BACKWARD-DAG: nn.linear_weight_gradient
// BACKWARD-DAG: nn.bias_gradient
// BACKWARD-DAG: nn.rms_norm_weight_gradient
// BACKWARD: return

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @head.weight : tensor<50x4xf32> {aliases = ["table"], storage = "f32"}
nn.parameter @"layers.0.up.weight" : tensor<4x4xf32> {storage = "bf16"}
nn.parameter @"layers.0.up.bias" : tensor<4xf32> {storage = "f32"}
nn.parameter @"layers.0.norm.weight" : tensor<4xf32> {storage = "f32"}
train.block embed @embed parameters ("w" = @head.weight) programs {forward = @embed.forward}
func.func private @embed.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "w">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> !x
  return %0 : !x
}
train.block layer @layer parameters ("norm.weight" = @"layers.0.norm.weight", "up.weight" = @"layers.0.up.weight", "up.bias" = @"layers.0.up.bias") programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm.weight">},
    %up: tensor<4x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %bias: tensor<4xf32> {train.port = #train.port<parameter, "up.bias">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %up bias %bias addend %x) : (!x, tensor<4x4xf32>, tensor<4xf32>, !x) -> !x
  return %1 : !x
}
train.block head @head parameters ("w" = @head.weight) programs {forward = @head.forward}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "w">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %0 : tensor<?x?x50xf32, #nn.tokens>
}
