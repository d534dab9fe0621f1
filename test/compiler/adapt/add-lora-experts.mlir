// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-add-lora="rank=2 alpha=8 targets=all-linear,experts.up,experts.down,gate" | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: mebp-opt %s --mebp-add-lora="rank=2 alpha=8 targets=experts.up,gate.weight" | FileCheck %s --check-prefixes=ONE
// RUN: mebp-opt %s --mebp-add-lora="rank=2 targets=all-linear" | FileCheck %s --check-prefixes=LINEAR
// RUN: not mebp-opt %s --mebp-add-lora="rank=2 targets=up" 2>&1 | FileCheck %s --check-prefixes=MODULE
// RUN: not mebp-opt %s --mebp-add-lora="rank=2 targets=experts.up dropout=0.1" 2>&1 | FileCheck %s --check-prefixes=DROPOUT
// RUN: not mebp-opt %s --mebp-add-lora="rank=2 targets=gate.weight dropout=0.1" 2>&1 | FileCheck %s --check-prefixes=ROUTER

// PEFT's target_parameters: the router's weight and both of the experts'. A has the rows of one expert after those of
// another, B one expert in every third column.
// BOTH: mebp.lora = {alpha = 8.000000e+00 : f32, rank = 2 : i64, target_modules = ["out"]}
// BOTH-SAME: mebp.target_parameters = ["gate.weight", "experts.up", "experts.down"]
// CHECK: nn.parameter @base_model.model.layers.0.gate.lora_A.weight : tensor<2x4xf32> {adapts = @layers.0.gate.weight, initial_bound = 5.000000e-01 : f32, trainable}
// CHECK: nn.parameter @base_model.model.layers.0.gate.lora_B.weight : tensor<3x2xf32>
// The module is wrapped in the adapter of its first parameter, and that in the one of its second.
// CHECK: nn.parameter @base_model.model.layers.0.experts.base_layer.lora_A.weight : tensor<6x4xf32> {adapts = @layers.0.experts.up, initial_bound = 5.000000e-01 : f32, trainable}
// CHECK: nn.parameter @base_model.model.layers.0.experts.base_layer.lora_B.weight : tensor<5x6xf32> {adapts = @layers.0.experts.up, initial_bound = 0.000000e+00 : f32, trainable}
// CHECK: nn.parameter @base_model.model.layers.0.experts.lora_A.weight : tensor<6x5xf32> {adapts = @layers.0.experts.down, initial_bound = 0.44721359 : f32, trainable}
// CHECK: nn.parameter @base_model.model.layers.0.experts.lora_B.weight : tensor<4x6xf32> {adapts = @layers.0.experts.down
// CHECK: nn.parameter @base_model.model.layers.0.out.lora_A.weight : tensor<2x4xf32> {initial_bound
// CHECK: %[[WEIGHTS:.*]], %[[IDS:.*]] = nn.route
// CHECK: %[[H:.*]] = nn.expert_linear(%[[X:[^ ]*]], %{{[^ ]*}}, %[[IDS]]) : (tensor<?x?x4xf32, #nn.tokens>, tensor<6x4xf32>, {{.*}}) -> tensor<?x?x4xf32, #nn.tokens>
// CHECK: %[[LOW:.*]] = nn.expert_linear(%[[H]], %{{[^ ]*}}, %[[IDS]]) {alpha = 4.000000e+00 : f32} : {{.*}} -> tensor<?x?x10xf32, #nn.tokens>
// CHECK: nn.expert_linear(%[[X]], %{{[^ ]*}}, %[[IDS]], %[[LOW]])

// Alone, it has the module's own name.
// ONE: target_modules = []
// ONE-SAME: mebp.target_parameters = ["gate.weight", "experts.up"]
// ONE-NOT: base_layer
// ONE: nn.parameter @base_model.model.layers.0.experts.lora_A.weight : tensor<6x4xf32> {adapts = @layers.0.experts.up

// LINEAR-NOT: mebp.target_parameters
// LINEAR-NOT: adapts

// A parameter is named with its module, as other modules have layers of that name.
// MODULE: --lora-targets: 'up' matches no linear layer; there are gate.weight, experts.up, experts.down, out

// PEFT refuses it there, too.
// DROPOUT: error: --lora-dropout does not reach 'layers.0.experts', which is of experts or their router; leave it out of --lora-targets, or leave out --lora-dropout
// ROUTER: error: --lora-dropout does not reach 'layers.0.gate', which is of experts or their router; leave it out of

!x = tensor<?x?x4xf32, #nn.tokens>
!j = tensor<?x?x2xf32, #nn.tokens>
nn.parameter @layers.0.gate.weight : tensor<3x4xf32> {bare}
nn.parameter @layers.0.experts.up : tensor<15x4xf32> {bare}
nn.parameter @layers.0.experts.down : tensor<12x5xf32> {bare}
nn.parameter @layers.0.out.weight : tensor<4x4xf32>
train.block layer @layers.0 parameters ("gate.weight" = @layers.0.gate.weight, "experts.up" = @layers.0.experts.up,
    "experts.down" = @layers.0.experts.down, "out.weight" = @layers.0.out.weight) programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %gate: tensor<3x4xf32> {train.port = #train.port<parameter, "gate.weight">},
    %up: tensor<15x4xf32> {train.port = #train.port<parameter, "experts.up">},
    %down: tensor<12x5xf32> {train.port = #train.port<parameter, "experts.down">},
    %out: tensor<4x4xf32> {train.port = #train.port<parameter, "out.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %logits = nn.linear(%x, %gate) : (!x, tensor<3x4xf32>) -> tensor<?x?x3xf32, #nn.tokens>
  %weights, %ids = nn.route(%logits) {score = "softmax"} : (tensor<?x?x3xf32, #nn.tokens>) -> (!j, !j)
  %h = nn.expert_linear(%x, %up, %ids) : (!x, tensor<15x4xf32>, !j) -> tensor<?x?x10xf32, #nn.tokens>
  %y = nn.expert_linear(%h, %down, %ids) : (tensor<?x?x10xf32, #nn.tokens>, tensor<12x5xf32>, !j) -> tensor<?x?x8xf32, #nn.tokens>
  %sum = nn.expert_sum(%y, %weights) : (tensor<?x?x8xf32, #nn.tokens>, !j) -> !x
  %z = nn.linear(%sum, %out) : (!x, tensor<4x4xf32>) -> !x
  return %z : !x
}
