// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-attach-objective --mebp-add-value-head | FileCheck %s
// RUN: mebp-opt %s --mebp-attach-objective --mebp-add-value-head --mebp-differentiate-blocks | FileCheck %s --check-prefix=GRADIENT
// RUN: mebp-opt %s --pass-pipeline='builtin.module(mebp-attach-objective,mebp-add-value-head,mebp-differentiate-blocks{entropy},mebp-tile-loss{rows=16 columns=32},func.func(mebp-narrow-activations))' | FileCheck %s --check-prefix=NARROW

// Values are of the same normed rows as the log-probabilities; logits know nothing of them.
// CHECK: func.func private @head.log_probabilities(
// CHECK-SAME: %[[WV:[^ ]*]]: tensor<1x4xf32> {train.port = #train.port<parameter, "value_head.weight">, train.trainable},
// CHECK-SAME: %[[BV:[^ ]*]]: tensor<1xf32> {train.port = #train.port<parameter, "value_head.bias">, train.trainable})
// CHECK-SAME: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<result, "values">})
// CHECK: %[[NORM:.*]] = nn.rms_norm(
// CHECK: %[[V:.*]] = nn.linear(%[[NORM]], %[[WV]] bias %[[BV]])
// CHECK: %[[LOGP:.*]], %[[ENTROPY:.*]] = nn.log_probability(%[[NORM]],
// CHECK: return %[[LOGP]], %[[ENTROPY]], %[[V]]
// CHECK-LABEL: func.func private @head.logits(
// CHECK-NOT: value_head
// CHECK: return
// CHECK: nn.parameter @value_head.weight : tensor<1x4xf32> {initial_bound = 0.000000e+00 : f32, trainable}
// CHECK: nn.parameter @value_head.bias : tensor<1xf32> {initial_bound = 0.000000e+00 : f32, trainable}

// One pullback through the norm takes what comes back from both.
// GRADIENT-LABEL: func.func private @head.objective(
// GRADIENT-SAME: %[[C:[^ ]*]]: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "coefficients">},
// GRADIENT-SAME: %[[E:[^ ]*]]: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "value_coefficients">},
// GRADIENT-SAME: #train.port<gradient, "value_head.weight">
// GRADIENT-SAME: #train.port<gradient, "value_head.bias">
// GRADIENT-DAG: nn.linear_weight_gradient(%[[E]],
// GRADIENT-DAG: nn.bias_gradient(%[[E]])
// GRADIENT-COUNT-1: nn.rms_norm_input_gradient
// GRADIENT-NOT: nn.rms_norm_input_gradient
// GRADIENT: return

// What the caller gives and takes stays in f32. With a cotangent of the entropy, the sum over the vocabulary for the
// input is a second sweep's.
// NARROW-LABEL: func.func private @head.objective(
// NARROW-SAME: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "entropy_coefficients">}
// NARROW-SAME: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "value_coefficients">}
// NARROW-SAME: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<result, "values">}
// NARROW: nn.linear({{.*}} bias {{.*}} -> tensor<?x?x1xf32, #nn.tokens>
// NARROW: %[[S:.*]]:4 = train.loop weight_rows 32
// NARROW: nn.log_probability_tile
// NARROW: nn.log_probability_from_tiles
// NARROW: train.loop weight_rows 32
// NARROW: %[[DL:.*]] = nn.log_probability_logits_gradient(%{{[^ ]*}}, %{{[^ ]*}}, %[[S]]#0, %[[S]]#1, %[[S]]#3, %{{[^ ]*}}, %[[S]]#2, %{{[^ ]*}})
// NARROW-NEXT: nn.linear_input_gradient(%[[DL]], %{{.*}} addend %{{.*}}) {narrow} : {{.*}} -> tensor<?x?x4xf32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @n : tensor<4xf32>
nn.parameter @table : tensor<50x4xf32>
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %n: tensor<4xf32> {train.port = #train.port<parameter, "n">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<?x?x50xf32, #nn.tokens> {train.port = #train.port<result, "logits">}) {
  %0 = nn.rms_norm(%x, %n) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %1 = nn.linear(%0, %w) : (!x, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %1 : tensor<?x?x50xf32, #nn.tokens>
}
train.block head @head parameters ("n" = @n, "table" = @table) programs {forward = @head.forward}
