// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-tile-loss="rows=16 columns=32" | FileCheck %s
// RUN: mebp-opt %s --mebp-tile-loss="rows=16 columns=32" --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values | FileCheck %s --check-prefix=EXEC

!x = tensor<?x?x4xf32, #nn.tokens>

// The loss alone: the running softmax over tiles of the vocabulary, for one tile of rows after the other.
// CHECK-LABEL: func.func private @head.loss(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[LABELS:[^ ]*]]: tensor<?x?x1xi32, #nn.tokens>
// CHECK-SAME: %[[SCALE:[^ ]*]]: tensor<1x1xf32>
// CHECK-SAME: %[[W:[^ ]*]]: tensor<50x4xf32>
// CHECK-NEXT: %[[ZERO:.*]] = nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<1x1xf32>
// CHECK-NEXT: %[[LOSS:.*]] = train.loop token_rows 16 trip %[[R:.*]] (%[[SUM:.*]] = %[[ZERO]]) : tensor<1x1xf32> {
// CHECK: %[[XC:.*]] = train.slice %[[X]][%[[R]]]
// CHECK: %[[N:.*]] = nn.scale(%[[XC]])
// CHECK: %[[LABELSC:.*]] = train.slice %[[LABELS]][%[[R]]]
// CHECK-DAG: nn.fill() {value = 0xFF800000 : f32} : () -> tensor<?x?x1xf32, #nn.tokens>
// CHECK-DAG: nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<?x?x1xf32, #nn.tokens>
// CHECK: %[[S:.*]]:3 = train.loop weight_rows 32 over %[[W]] : tensor<50x4xf32> trip %[[C:.*]] (%[[MAX:[^ ]*]] = %{{[^ ]*}}, %[[TOTAL:[^ ]*]] = %{{[^ ]*}}, %[[TARGET:[^ ]*]] = %{{[^ ]*}})
// CHECK-NEXT: %[[TILE:.*]] = train.slice %[[W]][%[[C]]] : tensor<50x4xf32> -> tensor<?x4xf32>
// CHECK-NEXT: %[[LOGITS:.*]] = nn.linear(%[[N]], %[[TILE]])
// CHECK-NEXT: %{{.*}}, %[[MAX1:.*]], %[[TOTAL1:.*]], %[[TARGET1:.*]] = nn.cross_entropy_tile(%[[LOGITS]], %[[LABELSC]], %[[MAX]], %[[TOTAL]], %[[TARGET]])
// CHECK-NEXT: train.yield %[[MAX1]], %[[TOTAL1]], %[[TARGET1]]
// CHECK: %[[NEXT:.*]] = nn.cross_entropy(%[[LABELSC]], %[[S]]#0, %[[S]]#1, %[[S]]#2, %[[SCALE]], %[[SUM]])
// CHECK-NEXT: train.yield %[[NEXT]]
// CHECK: return %[[LOSS]]

// Nothing has as many columns as the vocabulary, and nothing but the result as many rows as the tokens.
// EXEC-LABEL: exec.program @head.loss
// EXEC-NOT: tensor<80x50x
// EXEC: tensor<16x32xf32, #exec.extent<0, 1>>
func.func private @head.loss(%x: !x {train.port = #train.port<flow, "hidden">}, %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">},
    %scale: tensor<1x1xf32> {train.port = #train.port<batch, "scale">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">}) -> (tensor<1x1xf32> {train.port = #train.port<result, "loss">}) {
  %n = nn.scale(%x) {alpha = 2.0 : f32} : (!x) -> !x
  %loss = nn.linear_cross_entropy(%n, %w, %labels, %scale)
      : (!x, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<1x1xf32>) -> tensor<1x1xf32>
  return %loss : tensor<1x1xf32>
}

// The objective: probabilities times the weight are summed in the same sweep, and the cotangent flows back through the
// rest of the head before the tile ends.
// CHECK-LABEL: func.func private @head.objective(
// CHECK: %[[G:.*]]:2 = train.loop token_rows 16 trip %[[R:.*]] (%[[SUM:[^ ]*]] = %{{[^ ]*}}, %[[DX:[^ ]*]] = %{{[^ ]*}})
// CHECK: %[[S:.*]]:4 = train.loop weight_rows 32 over %[[W:.*]] : tensor<50x4xf32> trip %{{.*}} (%{{.*}}, %[[PRODUCT:[^ ]*]] = %{{[^ ]*}})
// CHECK: %[[TILE:.*]] = train.slice %[[W]]
// CHECK: %[[P:.*]], %{{.*}}, %{{.*}}, %{{.*}}, %[[SCALED:.*]] = nn.cross_entropy_tile({{.*}}, %[[PRODUCT]])
// CHECK-NEXT: %[[PRODUCT1:.*]] = nn.linear_input_gradient(%[[P]], %[[TILE]] addend %[[SCALED]])
// CHECK-NEXT: train.yield %{{.*}}, %[[PRODUCT1]] :
// CHECK: %[[NEXT:.*]], %[[DN:.*]] = nn.cross_entropy({{.*}}, %[[SUM]], %[[S]]#3, %[[W]])
// CHECK-NEXT: %[[DXC:.*]] = nn.scale(%[[DN]])
// CHECK-NEXT: %[[DX1:.*]] = train.update %[[DXC]] into %[[DX]][%[[R]]]
// CHECK-NEXT: train.yield %[[NEXT]], %[[DX1]]
// CHECK: return %[[G]]#0, %[[G]]#1

// The cotangent's rows are made in the output's own memory.
// EXEC-LABEL: exec.program @head.objective
// EXEC-NOT: tensor<80x50x
// EXEC: exec.return
func.func private @head.objective(%x: !x {train.port = #train.port<flow, "hidden">}, %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">},
    %scale: tensor<1x1xf32> {train.port = #train.port<batch, "scale">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "table">})
    -> (tensor<1x1xf32> {train.port = #train.port<result, "loss">}, !x {train.port = #train.port<flow, "hidden.cotangent">}) {
  %n = nn.scale(%x) {alpha = 2.0 : f32} : (!x) -> !x
  %loss, %dn = nn.linear_cross_entropy_gradient(%n, %w, %labels, %scale)
      : (!x, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<1x1xf32>) -> (tensor<1x1xf32>, !x)
  %dx = nn.scale(%dn) {alpha = 2.0 : f32} : (!x) -> !x
  return %loss, %dx : tensor<1x1xf32>, !x
}
nn.parameter @table : tensor<50x4xf32>
train.block head @head parameters ("table" = @table) programs {loss = @head.loss, objective = @head.objective}
