// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-tile-loss="rows=16 columns=32" | FileCheck %s
// RUN: mebp-opt %s --pass-pipeline='builtin.module(mebp-tile-loss{rows=16 columns=32},func.func(mebp-narrow-activations))' | FileCheck %s --check-prefix=NARROW
// RUN: mebp-opt %s --mebp-tile-loss="rows=16 columns=32" --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values | FileCheck %s --check-prefix=EXEC

!x = tensor<?x?x4xf32, #nn.tokens>
!t = tensor<?x?x2xf32, #nn.tokens>
!s = tensor<?x?x3xf32, #nn.tokens>
!r = tensor<?x?x1xf32, #nn.tokens>
!i = tensor<?x?x1xi32, #nn.tokens>

// B is tiled with the weight. A second sweep of the same rows adds to B's gradient, tile by tile in place, and to the
// cotangent of `low`, of which A's gradient is made before the rows' tile ends.
// CHECK-LABEL: func.func private @head.objective(
// CHECK-SAME: %[[W:[^ ]*]]: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}, %[[A:[^ ]*]]: tensor<2x4xf32> {{{.*}}}, %[[B:[^ ]*]]: tensor<50x2xf32>
// CHECK-DAG: nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<50x2xf32>
// CHECK-DAG: nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<2x4xf32>
// CHECK: %[[ALL:.*]]:5 = train.loop token_rows 16 trip %[[R:.*]] (
// CHECK: %[[LOW:.*]] = nn.linear(%[[XC:.*]], %[[A]])
// CHECK: %[[S:.*]]:5 = train.loop weight_rows 32 over %[[W]] : tensor<50x4xf32> trip %[[C:.*]] (
// CHECK-NEXT: %[[TILE:.*]] = train.slice %[[W]][%[[C]]] : tensor<50x4xf32> -> tensor<?x4xf32>
// CHECK-NEXT: %[[BTILE:.*]] = train.slice %[[B]][%[[C]]] : tensor<50x2xf32> -> tensor<?x2xf32>
// CHECK-NEXT: %[[LOGITS:.*]] = nn.linear(%[[XC]], %[[TILE]] low %[[LOW]], %[[BTILE]]) {low_alpha = 5.000000e-01 : f32}
// CHECK-NEXT: %[[P:[^ ,]*]], {{.*}} = nn.log_probability_tile(%[[LOGITS]],
// CHECK-NEXT: nn.linear_input_gradient(%[[P]], %[[TILE]] addend
// CHECK: %{{[^ ]*}}, %{{[^ ]*}}, %[[DX:[^ ]*]] = nn.log_probability_from_tiles(
// CHECK: %[[NONE:.*]] = nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: %[[G:.*]]:2 = train.loop weight_rows 32 over %[[W]] : tensor<50x4xf32> trip %[[C:.*]] (%[[DLOW:[^ ]*]] = %[[NONE]], %[[DB:[^ ]*]] = %{{[^ ]*}})
// CHECK-NEXT: %[[TILE:.*]] = train.slice %[[W]][%[[C]]]
// CHECK-NEXT: %[[BTILE:.*]] = train.slice %[[B]][%[[C]]]
// CHECK-NEXT: %[[LOGITS:.*]] = nn.linear(%[[XC]], %[[TILE]] low %[[LOW]], %[[BTILE]]) {low_alpha = 5.000000e-01 : f32}
// CHECK-NEXT: %[[DLOGITS:.*]] = nn.log_probability_logits_gradient(%[[LOGITS]], %{{.*}}, %[[S]]#0, %[[S]]#1, %[[S]]#3, %{{.*}})
// CHECK-NEXT: %[[DLOW1:.*]] = nn.linear_input_gradient(%[[DLOGITS]], %[[BTILE]] addend %[[DLOW]]) {alpha = 5.000000e-01 : f32}
// CHECK-NEXT: %[[ROWS:.*]] = train.slice %[[DB]][%[[C]]] : tensor<50x2xf32> -> tensor<?x2xf32>
// CHECK-NEXT: %[[ADDED:.*]] = nn.linear_weight_gradient(%[[DLOGITS]], %[[LOW]], %[[ROWS]]) {alpha = 5.000000e-01 : f32}
// CHECK-NEXT: %[[DB1:.*]] = train.update %[[ADDED]] into %[[DB]][%[[C]]]
// CHECK-NEXT: train.yield %[[DLOW1]], %[[DB1]]
// CHECK: nn.linear_input_gradient(%[[G]]#0, %[[A]] addend %[[DX]])
// CHECK: nn.linear_weight_gradient(%[[G]]#0, %[[XC]],
// CHECK: return

// The cotangent of `low` is a sum over the vocabulary, and stays in f32 until all of it is there.
// NARROW-LABEL: func.func private @head.objective(
// NARROW: nn.linear(%{{.*}}, %{{.*}}) : (tensor<?x?x4xbf16, #nn.tokens>, tensor<2x4xf32>) -> tensor<?x?x2xbf16, #nn.tokens>
// NARROW: nn.log_probability_logits_gradient
// NARROW-NEXT: nn.linear_input_gradient({{.*}}) {alpha = 5.000000e-01 : f32, narrow} : (tensor<?x?x?xf32, #nn.tokens>, tensor<?x2xf32>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x2xf32, #nn.tokens>
// NARROW: nn.linear_weight_gradient({{.*}} : (tensor<?x?x?xf32, #nn.tokens>, tensor<?x?x2xbf16, #nn.tokens>, tensor<?x2xf32>) -> tensor<?x2xf32>

// EXEC-LABEL: exec.program @head.objective
// EXEC-NOT: tensor<80x50x
// EXEC: exec.kernel "linear_weight_gradient"({{.*}} : {{.*}}tensor<32x2xf32, #exec.extent<tile, whole>>
// EXEC-NOT: tensor<80x50x
// EXEC: exec.return
func.func private @head.objective(%x: !x {train.port = #train.port<flow, "hidden">},
    %c: !r {train.port = #train.port<batch, "coefficients">}, %labels: !i {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %a: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable},
    %b: tensor<50x2xf32> {train.port = #train.port<parameter, "b">, train.trainable})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">},
        !x {train.port = #train.port<flow, "hidden.cotangent">}, tensor<2x4xf32> {train.port = #train.port<gradient, "a">},
        tensor<50x2xf32> {train.port = #train.port<gradient, "b">}) {
  %low = nn.linear(%x, %a) : (!x, tensor<2x4xf32>) -> !t
  %logp, %entropy = nn.log_probability(%x, %w, %labels low %low, %b) {low_alpha = 0.5 : f32}
      : (!x, tensor<50x4xf32>, !i, !t, tensor<50x2xf32>) -> (!r, !r)
  %g:3 = nn.log_probability_gradient(%x, %w, %labels, %c low %low, %b) {low_alpha = 0.5 : f32}
      : (!x, tensor<50x4xf32>, !i, !r, !t, tensor<50x2xf32>) -> (!r, !r, !x)
  %dlow, %db = nn.log_probability_low_gradient(%x, %w, %labels, %c low %low, %b) {low_alpha = 0.5 : f32}
      : (!x, tensor<50x4xf32>, !i, !r, !t, tensor<50x2xf32>) -> (!t, tensor<50x2xf32>)
  %dx = nn.linear_input_gradient(%dlow, %a addend %g#2) : (!t, tensor<2x4xf32>, !x) -> !x
  %da = nn.linear_weight_gradient(%dlow, %x) : (!t, !x) -> tensor<2x4xf32>
  return %logp, %entropy, %dx, %da, %db : !r, !r, !x, tensor<2x4xf32>, tensor<50x2xf32>
}

// A product of more than half the weight's depth is no `low` of a kernel, and is added.
// CHECK-LABEL: func.func private @high.log_probabilities(
// CHECK: %[[LOW:.*]] = nn.linear(%[[X:.*]], %{{.*}}) : {{.*}} -> tensor<?x?x3xf32, #nn.tokens>
// CHECK: train.loop weight_rows 32 over %[[W:.*]] : tensor<50x4xf32> trip %[[C:.*]] (
// CHECK-NEXT: %[[TILE:.*]] = train.slice %[[W]][%[[C]]]
// CHECK-NEXT: %[[BTILE:.*]] = train.slice %{{.*}}[%[[C]]] : tensor<50x3xf32> -> tensor<?x3xf32>
// CHECK-NEXT: %[[ADDEND:.*]] = nn.linear(%[[LOW]], %[[BTILE]]) {alpha = 5.000000e-01 : f32}
// CHECK-NEXT: nn.linear(%[[X]], %[[TILE]] addend %[[ADDEND]])
func.func private @high.log_probabilities(%x: !x {train.port = #train.port<flow, "hidden">}, %labels: !i {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %a: tensor<3x4xf32> {train.port = #train.port<parameter, "a">, train.trainable},
    %b: tensor<50x3xf32> {train.port = #train.port<parameter, "b">, train.trainable})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">}) {
  %low = nn.linear(%x, %a) : (!x, tensor<3x4xf32>) -> !s
  %logp, %entropy = nn.log_probability(%x, %w, %labels low %low, %b) {low_alpha = 0.5 : f32}
      : (!x, tensor<50x4xf32>, !i, !s, tensor<50x3xf32>) -> (!r, !r)
  return %logp, %entropy : !r, !r
}

nn.parameter @table : tensor<50x4xf32>
nn.parameter @a : tensor<2x4xf32> {trainable}
nn.parameter @b : tensor<50x2xf32> {trainable}
train.block head @head parameters ("table" = @table, "a" = @a, "b" = @b) programs {objective = @head.objective}
nn.parameter @c : tensor<3x4xf32> {trainable}
nn.parameter @d : tensor<50x3xf32> {trainable}
train.block head @high parameters ("table" = @table, "a" = @c, "b" = @d) programs {log_probabilities = @high.log_probabilities}
