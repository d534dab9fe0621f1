// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-differentiate-blocks | FileCheck %s
// RUN: mebp-opt %s --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 | FileCheck %s --check-prefix=CHUNK
// RUN: mebp-opt %s --mebp-differentiate-blocks --mebp-chunk-sequence=size=16 --mebp-narrow-activations --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values -o /dev/null

!x = tensor<?x?x4xf32, #nn.tokens>
!e = tensor<?x?x3xf32, #nn.tokens>
!j = tensor<?x?x2xf32, #nn.tokens>
!y = tensor<?x?x10xf32, #nn.tokens>
!z = tensor<?x?x8xf32, #nn.tokens>
// What trains below it: a backward gives the cotangent of its input for this.
nn.parameter @lowest : tensor<50x4xf32> {trainable}
train.block embed @first parameters ("lowest" = @lowest) programs {forward = @first.forward}
func.func private @first.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "lowest">, train.trainable})
    -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %e = nn.embedding(%ids, %w) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return %e : tensor<?x?x4xf32, #nn.tokens>
}
nn.parameter @gate : tensor<3x4xf32>
nn.parameter @up : tensor<15x4xf32> {trainable}
nn.parameter @down : tensor<12x5xf32>
nn.parameter @bias : tensor<15xf32>
nn.parameter @choice : tensor<3x4xf32> {trainable}

// The choice is made again and has no gradient; every value has a row for each token, so all is cut into chunks, and
// the gradient of the experts' weight is carried.
train.block layer @experts parameters ("bias" = @bias, "down" = @down, "gate" = @gate, "up" = @up) programs {forward = @experts.forward}
func.func private @experts.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %gate: tensor<3x4xf32> {train.port = #train.port<parameter, "gate">},
    %up: tensor<15x4xf32> {train.port = #train.port<parameter, "up">, train.trainable},
    %down: tensor<12x5xf32> {train.port = #train.port<parameter, "down">},
    %bias: tensor<15xf32> {train.port = #train.port<parameter, "bias">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %logits = nn.linear(%x, %gate) : (!x, tensor<3x4xf32>) -> !e
  %weights, %ids = nn.route(%logits) {score = "softmax", normalized, scale = 2.0 : f32} : (!e) -> (!j, !j)
  %h = nn.expert_linear(%x, %up, %ids bias %bias) : (!x, tensor<15x4xf32>, !j, tensor<15xf32>) -> !y
  %z = nn.expert_linear(%h, %down, %ids) {alpha = 3.0 : f32} : (!y, tensor<12x5xf32>, !j) -> !z
  %sum = nn.expert_sum(%z, %weights) : (!z, !j) -> !x
  return %sum : !x
}
// CHECK-LABEL: func.func private @experts.backward(
// CHECK: %[[L:.*]] = nn.linear
// CHECK: %[[W:.*]], %[[I:.*]] = nn.route(%[[L]])
// CHECK: %[[H:.*]] = nn.expert_linear(%[[X:.*]], %[[UP:.*]], %[[I]] bias %{{.*}})
// CHECK: %[[Z:.*]] = nn.expert_linear(%[[H]], %[[DOWN:.*]], %[[I]])
// CHECK: %[[DZ:.*]], %[[DW:.*]] = nn.expert_sum_gradient(%[[Z]], %[[W]], %[[D:.*]])
// CHECK: %[[DH:.*]] = nn.expert_linear_input_gradient(%[[DZ]], %[[DOWN]], %[[I]]) {alpha = 3.000000e+00 : f32}
// CHECK-DAG: nn.expert_linear_shared_gradient(%[[DH]], %[[UP]], %[[I]])
// CHECK-DAG: nn.expert_linear_weight_gradient(%[[DH]], %[[X]], %[[I]])
// CHECK-DAG: nn.route_gradient(%[[L]], %[[I]], %[[DW]]) {normalized, scale = 2.000000e+00 : f32, score = "softmax"}
// CHUNK-LABEL: func.func private @experts.backward(
// CHUNK: train.loop
// CHUNK: %[[DW:.*]] = nn.expert_linear_weight_gradient(%{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %[[SUM:.*]])
// CHUNK: train.yield {{.*}}%[[DW]]

// What is near the largest is told by the logits and the ids again.
train.block layer @near parameters ("gate" = @choice) programs {forward = @near.forward}
func.func private @near.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %gate: tensor<3x4xf32> {train.port = #train.port<parameter, "gate">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %logits = nn.linear(%x, %gate) : (!x, tensor<3x4xf32>) -> !e
  %weights, %ids = nn.route(%logits) {score = "softmax_of_near", threshold = 0.5 : f32} : (!e) -> (!j, !j)
  %both = nn.concat(%x, %x) : (!x, !x) -> !z
  %sum = nn.expert_sum(%both, %weights) : (!z, !j) -> !x
  return %sum : !x
}
// CHECK-LABEL: func.func private @near.backward(
// CHECK: %[[L:.*]] = nn.linear
// CHECK: %{{.*}}, %[[I:.*]] = nn.route(%[[L]])
// CHECK: nn.route_gradient(%[[L]], %[[I]], %{{.*}}) {score = "softmax_of_near", threshold = 5.000000e-01 : f32}
