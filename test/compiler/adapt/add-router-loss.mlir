// SPDX-License-Identifier: Apache-2.0
// RUN: split-file %s %t
// RUN: mebp-opt %t/model.mlir --mebp-add-router-loss | FileCheck %s
// RUN: mebp-opt %t/model.mlir --mebp-add-router-loss --mebp-differentiate-blocks | FileCheck %s --check-prefix=GRADIENT
// RUN: mebp-opt %t/model.mlir --mebp-add-router-loss --mebp-derive-decode="positions=64 rows=4 batch=1" | FileCheck %s --check-prefix=DECODE
// RUN: mebp-opt %t/model.mlir --mebp-add-router-loss --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 | FileCheck %s --check-prefix=CHUNK
// RUN: mebp-opt %t/model.mlir --mebp-add-router-loss --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 --mebp-narrow-activations --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values -o /dev/null
// RUN: not mebp-opt %t/none.mlir --mebp-add-router-loss 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mebp-opt %t/two.mlir --mebp-add-router-loss 2>&1 | FileCheck %s --check-prefix=TWO

// CHECK-LABEL: func.func private @dense.forward(
// CHECK-NOT: expert_load
// CHECK-LABEL: func.func private @experts.forward(
// CHECK-SAME: %[[COUNTED:[^ ]*]]: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "counted">})
// CHECK-SAME: tensor<3xf32> {train.port = #train.port<result, "expert_scores">}, tensor<3xf32> {train.port = #train.port<result, "expert_counts">})
// CHECK: %{{.*}}, %[[IDS:.*]] = nn.route(%[[LOGITS:.*]]) {
// CHECK: %[[SCORES:.*]], %[[COUNTS:.*]] = nn.expert_load(%[[LOGITS]], %[[IDS]], %[[COUNTED]])
// CHECK: return %{{.*}}, %[[SCORES]], %[[COUNTS]]

// The derivative of the scores comes from the step; the backward sums nothing up again.
// GRADIENT-LABEL: func.func private @experts.backward(
// GRADIENT-SAME: %[[COSTS:[^ ]*]]: tensor<3xf32> {train.port = #train.port<batch, "expert_costs">}
// GRADIENT-SAME: %[[COUNTED:[^ ]*]]: tensor<?x?x1xf32, #nn.tokens> {train.port = #train.port<batch, "counted">}
// GRADIENT-NOT: nn.expert_load(
// GRADIENT-DAG: %[[OWN:.*]] = nn.route_gradient(
// GRADIENT-DAG: %[[LOSS:.*]] = nn.expert_load_gradient(%{{.*}}, %[[COUNTED]], %[[COSTS]])
// GRADIENT: nn.add(%[[LOSS]], %[[OWN]])

// Text needs none of it.
// DECODE-LABEL: func.func private @experts.decode(
// DECODE-NOT: counted
// DECODE-NOT: expert_load
// DECODE: return

// Sums are carried from chunk to chunk.
// CHUNK-LABEL: func.func private @experts.forward(
// CHUNK: train.loop
// CHUNK: nn.expert_load(%{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}})

// NONE: error: --router-aux-loss-coef: the model has no router; leave it out
// TWO: two.mlir:9:{{[0-9]*}}: error: --router-aux-loss-coef: is for models whose layers have one router each, of as many experts; leave it out

//--- model.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
!e = tensor<?x?x3xf32, #nn.tokens>
!j = tensor<?x?x2xf32, #nn.tokens>
!z = tensor<?x?x8xf32, #nn.tokens>
nn.parameter @gate : tensor<3x4xf32>
nn.parameter @down : tensor<12x4xf32>
train.block layer @dense parameters () programs {forward = @dense.forward}
func.func private @dense.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.silu(%x) : (!x) -> !x
  return %y : !x
}
train.block layer @experts parameters ("down" = @down, "gate" = @gate) programs {forward = @experts.forward}
func.func private @experts.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %gate: tensor<3x4xf32> {train.port = #train.port<parameter, "gate">},
    %down: tensor<12x4xf32> {train.port = #train.port<parameter, "down">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %logits = nn.linear(%x, %gate) : (!x, tensor<3x4xf32>) -> !e
  %weights, %ids = nn.route(%logits) {score = "softmax"} : (!e) -> (!j, !j)
  %z = nn.expert_linear(%x, %down, %ids) : (!x, tensor<12x4xf32>, !j) -> !z
  %sum = nn.expert_sum(%z, %weights) : (!z, !j) -> !x
  return %sum : !x
}

//--- none.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
train.block layer @dense parameters () programs {forward = @dense.forward}
func.func private @dense.forward(%x: !x {train.port = #train.port<flow, "hidden">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.silu(%x) : (!x) -> !x
  return %y : !x
}

//--- two.mlir
!x = tensor<?x?x4xf32, #nn.tokens>
!j = tensor<?x?x2xf32, #nn.tokens>
!e = tensor<?x?x2xf32, #nn.tokens>
nn.parameter @gate : tensor<4x4xf32>
train.block layer @experts parameters ("gate" = @gate) programs {forward = @experts.forward}
func.func private @experts.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %gate: tensor<4x4xf32> {train.port = #train.port<parameter, "gate">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %first, %ids = nn.route(%x) {score = "softmax"} : (!x) -> (!j, !j)
  %second, %more = nn.route(%x) {score = "sigmoid"} : (!x) -> (!j, !j)
  %z = nn.linear(%x, %gate) : (!x, tensor<4x4xf32>) -> !x
  return %z : !x
}
