// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-tile-loss="rows=16 columns=32" | FileCheck %s
// RUN: mebp-opt %s --mebp-tile-loss="rows=16 columns=32" --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values | FileCheck %s --check-prefix=EXEC

!x = tensor<?x?x4xf32, #nn.tokens>
!r = tensor<?x?x1xf32, #nn.tokens>
!i = tensor<?x?x1xi32, #nn.tokens>

// The log-probabilities: the running softmax over tiles of the vocabulary, for one tile of rows after the other.
// CHECK-LABEL: func.func private @head.log_probabilities(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[LABELS:[^ ]*]]: tensor<?x?x1xi32, #nn.tokens>
// CHECK-SAME: %[[W:[^ ]*]]: tensor<50x4xf32>
// CHECK: %[[ALL:.*]]:2 = train.loop token_rows 16 trip %[[R:.*]] (%[[LOGP:[^ ]*]] = %{{[^ ]*}}, %[[ENTROPY:[^ ]*]] = %{{[^ ]*}})
// CHECK: %[[XC:.*]] = train.slice %[[X]][%[[R]]]
// CHECK: %[[N:.*]] = nn.scale(%[[XC]])
// CHECK: %[[LABELSC:.*]] = train.slice %[[LABELS]][%[[R]]]
// CHECK-DAG: nn.fill() {value = 0xFF800000 : f32} : () -> tensor<?x?x1xf32, #nn.tokens>
// CHECK-DAG: nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<?x?x1xf32, #nn.tokens>
// CHECK: %[[S:.*]]:4 = train.loop weight_rows 32 over %[[W]] : tensor<50x4xf32> trip %[[C:.*]] (%[[MAX:[^ ]*]] = %{{[^ ]*}}, %[[TOTAL:[^ ]*]] = %{{[^ ]*}}, %[[WEIGHTED:[^ ]*]] = %{{[^ ]*}}, %[[TARGET:[^ ]*]] = %{{[^ ]*}})
// CHECK-NEXT: %[[TILE:.*]] = train.slice %[[W]][%[[C]]] : tensor<50x4xf32> -> tensor<?x4xf32>
// CHECK-NEXT: %[[LOGITS:.*]] = nn.linear(%[[N]], %[[TILE]])
// CHECK-NEXT: %{{.*}}, %[[MAX1:.*]], %[[TOTAL1:.*]], %[[WEIGHTED1:.*]], %[[TARGET1:.*]] = nn.log_probability_tile(%[[LOGITS]], %[[LABELSC]], %[[MAX]], %[[TOTAL]], %[[WEIGHTED]], %[[TARGET]])
// CHECK-NEXT: train.yield %[[MAX1]], %[[TOTAL1]], %[[WEIGHTED1]], %[[TARGET1]]
// CHECK: %[[LOGPC:.*]], %[[ENTROPYC:.*]] = nn.log_probability_from_tiles(%[[LABELSC]], %[[S]]#0, %[[S]]#1, %[[S]]#2, %[[S]]#3)
// CHECK-NEXT: %[[LOGP1:.*]] = train.update %[[LOGPC]] into %[[LOGP]][%[[R]]]
// CHECK-NEXT: %[[ENTROPY1:.*]] = train.update %[[ENTROPYC]] into %[[ENTROPY]][%[[R]]]
// CHECK-NEXT: train.yield %[[LOGP1]], %[[ENTROPY1]]
// CHECK: return %[[ALL]]#0, %[[ALL]]#1

// Nothing has as many columns as the vocabulary, and nothing but the results as many rows as the tokens.
// EXEC-LABEL: exec.program @head.log_probabilities
// EXEC-NOT: tensor<80x50x
// EXEC: tensor<16x32xf32, #exec.extent<chunk, tile>>
func.func private @head.log_probabilities(%x: !x {train.port = #train.port<flow, "hidden">}, %labels: !i {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">}) {
  %n = nn.scale(%x) {alpha = 2.0 : f32} : (!x) -> !x
  %logp, %entropy = nn.log_probability(%n, %w, %labels) : (!x, tensor<50x4xf32>, !i) -> (!r, !r)
  return %logp, %entropy : !r, !r
}

// The objective: probabilities times the weight are summed in the same sweep, which gives the log-probabilities, too, and
// the cotangent flows back through the rest of the head before the tile ends.
// CHECK-LABEL: func.func private @head.objective(
// CHECK-SAME: %[[COEFFICIENTS:[^ ]*]]: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "coefficients">}
// CHECK: %[[G:.*]]:3 = train.loop token_rows 16 trip %[[R:.*]] (%[[LOGP:[^ ]*]] = %{{[^ ]*}}, %[[ENTROPY:[^ ]*]] = %{{[^ ]*}}, %[[DX:[^ ]*]] = %{{[^ ]*}})
// CHECK: %[[S:.*]]:5 = train.loop weight_rows 32 over %[[W:.*]] : tensor<50x4xf32> trip %{{.*}} (%{{.*}}, %[[PRODUCT:[^ ]*]] = %{{[^ ]*}})
// CHECK: %[[TILE:.*]] = train.slice %[[W]]
// CHECK: %[[P:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[SCALED:.*]] = nn.log_probability_tile({{.*}}, %[[PRODUCT]])
// CHECK-NEXT: %[[PRODUCT1:.*]] = nn.linear_input_gradient(%[[P]], %[[TILE]] addend %[[SCALED]])
// CHECK-NEXT: train.yield %{{.*}}, %[[PRODUCT1]] :
// CHECK: %[[C:.*]] = train.slice %[[COEFFICIENTS]][%[[R]]]
// CHECK: %[[LOGPC:.*]], %[[ENTROPYC:.*]], %[[DN:.*]] = nn.log_probability_from_tiles({{.*}}, %[[C]], %[[S]]#4, %[[W]])
// CHECK-NEXT: %[[DXC:.*]] = nn.scale(%[[DN]])
// CHECK-DAG: %[[LOGP1:.*]] = train.update %[[LOGPC]] into %[[LOGP]][%[[R]]]
// CHECK-DAG: %[[ENTROPY1:.*]] = train.update %[[ENTROPYC]] into %[[ENTROPY]][%[[R]]]
// CHECK-DAG: %[[DX1:.*]] = train.update %[[DXC]] into %[[DX]][%[[R]]]
// CHECK: train.yield %[[LOGP1]], %[[ENTROPY1]], %[[DX1]]
// CHECK-NOT: weight_rows
// CHECK: return %[[G]]#0, %[[G]]#1, %[[G]]#2

// The cotangent's rows are made in the output's own memory.
// EXEC-LABEL: exec.program @head.objective
// EXEC-NOT: tensor<80x50x
// EXEC: exec.return
func.func private @head.objective(%x: !x {train.port = #train.port<flow, "hidden">},
    %c: !r {train.port = #train.port<batch, "coefficients">}, %labels: !i {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">},
        !x {train.port = #train.port<flow, "hidden.cotangent">}) {
  %n = nn.scale(%x) {alpha = 2.0 : f32} : (!x) -> !x
  %logp, %entropy = nn.log_probability(%n, %w, %labels) : (!x, tensor<50x4xf32>, !i) -> (!r, !r)
  %g:3 = nn.log_probability_gradient(%n, %w, %labels, %c) : (!x, tensor<50x4xf32>, !i, !r) -> (!r, !r, !x)
  %dx = nn.scale(%g#2) {alpha = 2.0 : f32} : (!x) -> !x
  return %logp, %entropy, %dx : !r, !r, !x
}

// A trained weight: a second sweep of the same rows, which adds to each tile of its gradient in place. A norm's is added
// up from tile to tile of rows.
// CHECK-LABEL: func.func private @trained.objective(
// CHECK-DAG: %[[ZERO:.*]] = nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<50x4xf32>
// CHECK-DAG: %[[NONE:.*]] = nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<4xf32>
// CHECK: %[[ALL:.*]]:5 = train.loop token_rows 16 trip %[[R:.*]] (%[[DW:[^ ]*]] = %[[ZERO]], %[[DNORM:[^ ]*]] = %[[NONE]], {{.*}})
// CHECK: train.loop weight_rows 32
// CHECK: nn.log_probability_from_tiles
// CHECK: %[[SUM:.*]] = train.loop weight_rows 32 over %[[W:.*]] : tensor<50x4xf32> trip %[[C:.*]] (%[[CARRIED:[^ ]*]] = %[[DW]])
// CHECK-NEXT: %[[TILE:.*]] = train.slice %[[W]][%[[C]]]
// CHECK-NEXT: %[[LOGITS:.*]] = nn.linear(%{{.*}}, %[[TILE]])
// CHECK-NEXT: %[[DLOGITS:.*]] = nn.log_probability_logits_gradient(%[[LOGITS]],
// CHECK-NEXT: %[[ROWS:.*]] = train.slice %[[CARRIED]][%[[C]]]
// CHECK-NEXT: %[[ADDED:.*]] = nn.linear_weight_gradient(%[[DLOGITS]], %{{.*}}, %[[ROWS]])
// CHECK-NEXT: %[[UPDATED:.*]] = train.update %[[ADDED]] into %[[CARRIED]][%[[C]]]
// CHECK-NEXT: train.yield %[[UPDATED]]
// CHECK: nn.rms_norm_weight_gradient({{.*}}, %[[DNORM]])
// CHECK: return
// What is added to is a copy of the tile, for a slice is not the kernel's to write; its update lies in the output.
// EXEC-LABEL: exec.program @trained.objective
// EXEC: %[[COPY:.*]] = exec.kernel "concat"(%{{.*}}) at [#exec.place<arena [[A:.*]]>] {} : (tensor<32x4xf32, #exec.extent<tile, whole>>)
// EXEC: exec.kernel "linear_weight_gradient"({{.*}} accumulator = %[[COPY]]) at [#exec.place<arena [[A]]>]
func.func private @trained.objective(%x: !x {train.port = #train.port<flow, "hidden">},
    %c: !r {train.port = #train.port<batch, "coefficients">}, %labels: !i {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">},
    %norm: tensor<4xf32> {train.port = #train.port<parameter, "norm">})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">},
        !x {train.port = #train.port<flow, "hidden.cotangent">}, tensor<50x4xf32> {train.port = #train.port<gradient, "table">},
        tensor<4xf32> {train.port = #train.port<gradient, "norm">}) {
  %n = nn.rms_norm(%x, %norm) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %g:3 = nn.log_probability_gradient(%n, %w, %labels, %c) : (!x, tensor<50x4xf32>, !i, !r) -> (!r, !r, !x)
  %dw = nn.log_probability_weight_gradient(%n, %w, %labels, %c) : (!x, tensor<50x4xf32>, !i, !r) -> tensor<50x4xf32>
  %dnorm = nn.rms_norm_weight_gradient(%x, %g#2) {epsilon = 1.0e-5 : f32} : (!x, !x) -> tensor<4xf32>
  return %g#0, %g#1, %g#2, %dw, %dnorm : !r, !r, !x, tensor<50x4xf32>, tensor<4xf32>
}

nn.parameter @table : tensor<50x4xf32>
train.block head @head parameters ("table" = @table) programs {log_probabilities = @head.log_probabilities, objective = @head.objective}
nn.parameter @norm : tensor<4xf32>
train.block head @trained parameters ("table" = @table, "norm" = @norm) programs {objective = @trained.objective}
