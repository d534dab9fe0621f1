// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-add-token-rows | FileCheck %s
// RUN: mebp-opt %s --mebp-add-token-rows --mebp-attach-objective --mebp-differentiate-blocks | FileCheck %s --check-prefix=GRADIENT
// RUN: mebp-opt %s --mebp-add-token-rows --mebp-attach-objective --mebp-differentiate-blocks --mebp-tile-loss="rows=4 columns=2" | FileCheck %s --check-prefix=TILE

// One R of the tied table, by the embedding's name, in both blocks, and zeros in its place in the table.
// CHECK: nn.parameter @lm_head.weight : tensor<6x4xf32> {aliases = ["model.embed_tokens.weight"], apart = array<i64: 3, 2>, pieces = [
// CHECK-LABEL: func.func private @embed.forward(
// CHECK-SAME: %[[IDS:[^ ]*]]: tensor<?x?x1xi32, #nn.tokens> {{[^%]*}}, %[[W:[^ ]*]]: tensor<6x4xf32>
// CHECK-SAME: %[[R:[^ ]*]]: tensor<2x4xf32> {train.port = #train.port<parameter, "embed_tokens.token_adapter.trainable_tokens_delta">, train.trainable}
// CHECK-SAME: %[[S:[^ ]*]]: tensor<6x2xf32> {train.port = #train.port<parameter, "new_tokens">})
// CHECK: %[[Y:.*]] = nn.embedding(%[[IDS]], %[[W]])
// CHECK-NEXT: %[[E:.*]] = nn.embedding(%[[IDS]], %[[S]])
// CHECK-NEXT: %[[SUM:.*]] = nn.linear_input_gradient(%[[E]], %[[R]] addend %[[Y]])
// CHECK-NEXT: return %[[SUM]]
// CHECK-LABEL: func.func private @head.forward(
// CHECK: %[[OWN:.*]] = nn.linear(%[[X:[^,]*]], %[[RH:[^)]*]]) : (tensor<?x?x4xf32, #nn.tokens>, tensor<2x4xf32>)
// CHECK-NEXT: %[[LOW:.*]] = nn.linear(%[[OWN]], %[[SH:[^)]*]]) : (tensor<?x?x2xf32, #nn.tokens>, tensor<6x2xf32>)
// CHECK-NEXT: nn.linear(%[[X]], %{{.*}} addend %[[LOW]])
// CHECK: nn.parameter @base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta : tensor<2x4xf32> {data = #nn.external<"new", 8, 16, "bf16">, rows_of = @lm_head.weight, storage = "f32", trainable}
// CHECK: nn.parameter @mebp.part.new_tokens : tensor<6x2xf32> {inline_data = dense<{{\[\[}}0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00], [0.000000e+00, 0.000000e+00], [1.000000e+00, 0.000000e+00], [0.000000e+00, 1.000000e+00], [0.000000e+00, 0.000000e+00]]> : tensor<6x2xf32>, storage = "bf16"}

// Nothing is computed of the table's own gradient, nor of S's.
// GRADIENT-LABEL: func.func private @embed.backward(
// GRADIENT-NOT: embedding_weight_gradient
// GRADIENT: nn.linear_weight_gradient(%{{.*}}, %{{.*}}) : (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> tensor<2x4xf32>
// GRADIENT-LABEL: func.func private @head.objective(
// GRADIENT-NOT: log_probability_weight_gradient
// GRADIENT: nn.log_probability_low_gradient({{.*}} -> tensor<?x?x2xf32, #nn.tokens>

// The second sweep adds to the cotangent of x Rᵀ, and to nothing of S.
// TILE-LABEL: func.func private @head.objective(
// TILE: nn.log_probability_from_tiles
// TILE: train.loop weight_rows 2
// TILE: %[[DL:.*]] = nn.log_probability_logits_gradient
// TILE-NEXT: nn.linear_input_gradient(%[[DL]], %{{.*}} addend %{{.*}}) : (tensor<?x?x?xf32, #nn.tokens>, tensor<?x2xf32>,
// TILE-NOT: nn.linear_weight_gradient({{.*}} -> tensor<?x2xf32>
// TILE: func.func
!x = tensor<?x?x4xf32, #nn.tokens>
!ids = tensor<?x?x1xi32, #nn.tokens>
!logits = tensor<?x?x6xf32, #nn.tokens>
module attributes {mebp.new_tokens = array<i64: 3, 2>, mebp.vocabulary = 6 : i64} {
nn.parameter @lm_head.weight : tensor<6x4xf32> {aliases = ["model.embed_tokens.weight"],
    pieces = [#nn.external<"m", 0, 24, "bf16">, #nn.external<"new", 8, 16, "bf16">, #nn.external<"m", 40, 8, "bf16">]}
func.func private @embed.forward(%ids: !ids {train.port = #train.port<batch, "ids">},
    %w: tensor<6x4xf32> {train.port = #train.port<parameter, "embed_tokens.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.embedding(%ids, %w) : (!ids, tensor<6x4xf32>) -> !x
  return %0 : !x
}
func.func private @head.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<6x4xf32> {train.port = #train.port<parameter, "lm_head.weight">}) -> (!logits {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<6x4xf32>) -> !logits
  return %0 : !logits
}
train.block embed @embed parameters ("embed_tokens.weight" = @lm_head.weight) programs {forward = @embed.forward}
train.block head @head parameters ("lm_head.weight" = @lm_head.weight) programs {forward = @head.forward}
}
