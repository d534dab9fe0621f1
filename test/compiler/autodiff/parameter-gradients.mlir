// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-differentiate-blocks | FileCheck %s

// What is no factor of a product has a gradient, too, where it is trained.

// Bias of nn.linear.
// CHECK-LABEL: func.func private @layer.backward.partial(
// CHECK-SAME: %[[X:[^ :]*]]: {{[^%]*}}%[[DY:[^ :]*]]:
// CHECK: %[[G:.*]] = nn.bias_gradient(%[[DY]])
// CHECK: return {{.*}}%[[G]]

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<4xf32> {trainable}
nn.parameter @w : tensor<4x4xf32>
nn.parameter @v : tensor<4xf32>
train.block layer @layer parameters ("p" = @p, "w" = @w, "v" = @v) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<4xf32> {train.port = #train.port<parameter, "p">, train.trainable},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %v: tensor<4xf32> {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %w bias %p) : (!x, tensor<4x4xf32>, tensor<4xf32>) -> !x
  %y = nn.add(%x, %0) : (!x, !x) -> !x
  return %y : !x
}

// -----

// Weight of nn.rms_norm.
// CHECK-LABEL: func.func private @layer.backward.partial(
// CHECK-SAME: %[[X:[^ :]*]]: {{[^%]*}}%[[DY:[^ :]*]]:
// CHECK: %[[G:.*]] = nn.rms_norm_weight_gradient(%[[X]], %[[DY]]) {epsilon = 9.99999974E-6 : f32}
// CHECK: return {{.*}}%[[G]]

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<4xf32> {trainable}
nn.parameter @w : tensor<4x4xf32>
nn.parameter @v : tensor<4xf32>
train.block layer @layer parameters ("p" = @p, "w" = @w, "v" = @v) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<4xf32> {train.port = #train.port<parameter, "p">, train.trainable},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %v: tensor<4xf32> {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.rms_norm(%x, %p) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %y = nn.add(%x, %0) : (!x, !x) -> !x
  return %y : !x
}

// -----

// Weight of nn.layer_norm.
// CHECK-LABEL: func.func private @layer.backward.partial(
// CHECK-SAME: %[[X:[^ :]*]]: {{[^%]*}}%[[DY:[^ :]*]]:
// CHECK: %[[G:.*]] = nn.layer_norm_weight_gradient(%[[X]], %[[DY]]) {epsilon = 9.99999974E-6 : f32}
// CHECK: return {{.*}}%[[G]]

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<4xf32> {trainable}
nn.parameter @w : tensor<4x4xf32>
nn.parameter @v : tensor<4xf32>
train.block layer @layer parameters ("p" = @p, "w" = @w, "v" = @v) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<4xf32> {train.port = #train.port<parameter, "p">, train.trainable},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %v: tensor<4xf32> {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.layer_norm(%x, %p) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>) -> !x
  %y = nn.add(%x, %0) : (!x, !x) -> !x
  return %y : !x
}

// -----

// Bias of nn.layer_norm.
// CHECK-LABEL: func.func private @layer.backward.partial(
// CHECK-SAME: %[[X:[^ :]*]]: {{[^%]*}}%[[DY:[^ :]*]]:
// CHECK: %[[G:.*]] = nn.bias_gradient(%[[DY]])
// CHECK: return {{.*}}%[[G]]

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<4xf32> {trainable}
nn.parameter @w : tensor<4x4xf32>
nn.parameter @v : tensor<4xf32>
train.block layer @layer parameters ("p" = @p, "w" = @w, "v" = @v) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<4xf32> {train.port = #train.port<parameter, "p">, train.trainable},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %v: tensor<4xf32> {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.layer_norm(%x, %v, %p) {epsilon = 1.0e-5 : f32} : (!x, tensor<4xf32>, tensor<4xf32>) -> !x
  %y = nn.add(%x, %0) : (!x, !x) -> !x
  return %y : !x
}

// -----

// Table of nn.position_embedding.
// CHECK-LABEL: func.func private @layer.backward.partial(
// CHECK-SAME: %[[X:[^ :]*]]: {{[^%]*}}%[[DY:[^ :]*]]:
// CHECK: %[[G:.*]] = nn.position_embedding_weight_gradient(%[[DY]])
// CHECK: return {{.*}}%[[G]]

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<64x4xf32> {trainable}
nn.parameter @w : tensor<4x4xf32>
nn.parameter @v : tensor<4xf32>
train.block layer @layer parameters ("p" = @p, "w" = @w, "v" = @v) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<64x4xf32> {train.port = #train.port<parameter, "p">, train.trainable},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %v: tensor<4xf32> {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.position_embedding(%p) : (tensor<64x4xf32>) -> !x
  %y = nn.add(%x, %0) : (!x, !x) -> !x
  return %y : !x
}

// -----

// Table of nn.embedding.
// CHECK-LABEL: func.func private @layer.backward(
// CHECK-SAME: %[[X:[^ :]*]]: {{[^%]*}}%[[DY:[^ :]*]]:
// CHECK: %[[G:.*]] = nn.embedding_weight_gradient(%[[DY]], %[[X]])
// CHECK: return {{.*}}%[[G]]

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<50x4xf32> {trainable}
train.block layer @layer parameters ("p" = @p) programs {forward = @layer.forward}
func.func private @layer.forward(%ids: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "ids">},
    %p: tensor<50x4xf32> {train.port = #train.port<parameter, "p">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.embedding(%ids, %p) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> !x
  return %y : !x
}

// -----

// The head's: beside the cotangent of its input.
// CHECK-LABEL: func.func private @{{.*}}objective(
// CHECK: nn.log_probability_gradient(
// CHECK: %[[G:.*]] = nn.log_probability_weight_gradient(
// CHECK: return {{.*}}%[[G]]

!r = tensor<?x?x1xf32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<50x4xf32> {trainable}
train.block head @head parameters ("p" = @p) programs {log_probabilities = @head.log_probabilities}
func.func private @head.log_probabilities(%x: !x {train.port = #train.port<flow, "hidden">},
    %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "p">, train.trainable})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">}) {
  %0:2 = nn.log_probability(%x, %w, %labels) : (!x, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>) -> (!r, !r)
  return %0#0, %0#1 : !r, !r
}

// -----

// An adapter of the head: one sweep gives B's gradient and the cotangent of the rows that it is multiplied with, from
// which A's gradient and its share of the input's cotangent come as in any linear layer.
// CHECK-LABEL: func.func private @{{.*}}objective(
// CHECK-SAME: %[[X:[^ :]*]]: tensor<?x?x4xf32, #nn.tokens> {{[^%]*}}%[[C:[^ :]*]]: {{[^%]*}}%[[LABELS:[^ :]*]]: {{[^%]*}}%[[W:[^ :]*]]: {{[^%]*}}%[[A:[^ :]*]]: {{[^%]*}}%[[B:[^ :]*]]:
// CHECK: %[[LOW:.*]] = nn.linear(%[[X]], %[[A]])
// CHECK: %{{.*}}, %{{.*}}, %[[DX:.*]] = nn.log_probability_gradient(%[[X]], %[[W]], %[[LABELS]], %[[C]] low %[[LOW]], %[[B]]) {low_alpha = 2.000000e+00 : f32}
// CHECK-NOT: nn.log_probability_weight_gradient
// CHECK: %[[DLOW:.*]], %[[DB:.*]] = nn.log_probability_low_gradient(%[[X]], %[[W]], %[[LABELS]], %[[C]] low %[[LOW]], %[[B]]) {low_alpha = 2.000000e+00 : f32}
// CHECK: %[[SHARE:.*]] = nn.linear_input_gradient(%[[DLOW]], %[[A]])
// CHECK: %[[DA:.*]] = nn.linear_weight_gradient(%[[DLOW]], %[[X]])
// CHECK: %[[SUM:.*]] = nn.add(%[[DX]], %[[SHARE]])
// CHECK: return %{{.*}}, %{{.*}}, %[[SUM]], %[[DA]], %[[DB]]

!r = tensor<?x?x1xf32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
!t = tensor<?x?x2xf32, #nn.tokens>
nn.parameter @w : tensor<50x4xf32>
nn.parameter @a : tensor<2x4xf32> {trainable}
nn.parameter @b : tensor<50x2xf32> {trainable}
train.block head @head parameters ("w" = @w, "a" = @a, "b" = @b) programs {log_probabilities = @head.log_probabilities}
func.func private @head.log_probabilities(%x: !x {train.port = #train.port<flow, "hidden">},
    %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "w">},
    %a: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable},
    %b: tensor<50x2xf32> {train.port = #train.port<parameter, "b">, train.trainable})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">}) {
  %t = nn.linear(%x, %a) : (!x, tensor<2x4xf32>) -> !t
  %0:2 = nn.log_probability(%x, %w, %labels low %t, %b) {low_alpha = 2.0 : f32}
      : (!x, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>, !t, tensor<50x2xf32>) -> (!r, !r)
  return %0#0, %0#1 : !r, !r
}

// -----

// Bias of the head.
// CHECK-LABEL: func.func private @head.objective(
// CHECK: %[[G:.*]] = nn.log_probability_bias_gradient(%{{.*}}, %{{.*}}, %{{.*}}, %{{[^ ]*}} bias %{{.*}})
// CHECK: return {{.*}}%[[G]]
!r = tensor<?x?x1xf32, #nn.tokens>
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<50x4xf32>
nn.parameter @b : tensor<50xf32> {trainable}
train.block head @head parameters ("p" = @p, "b" = @b) programs {log_probabilities = @head.log_probabilities}
func.func private @head.log_probabilities(%x: !x {train.port = #train.port<flow, "hidden">},
    %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">},
    %w: tensor<50x4xf32> {train.port = #train.port<parameter, "p">},
    %b: tensor<50xf32> {train.port = #train.port<parameter, "b">, train.trainable})
    -> (!r {train.port = #train.port<result, "log_probabilities">}, !r {train.port = #train.port<result, "entropy">}) {
  %0:2 = nn.log_probability(%x, %w, %labels bias %b) : (!x, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<50xf32>) -> (!r, !r)
  return %0#0, %0#1 : !r, !r
}

// -----

// Bias of nn.layer_norm, which each group has added.
// CHECK-LABEL: func.func private @layer.backward.partial(
// CHECK-SAME: %[[X:[^ :]*]]: {{[^%]*}}%[[DY:[^ :]*]]:
// CHECK: %[[TOTAL:.*]] = nn.repeat_gradient(%[[DY]]) : (tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: %[[G:.*]] = nn.bias_gradient(%[[TOTAL]]) : (tensor<?x?x2xf32, #nn.tokens>) -> tensor<2xf32>
// CHECK: return {{.*}}%[[G]]

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @p : tensor<2xf32> {trainable}
nn.parameter @v : tensor<2xf32>
train.block layer @layer parameters ("p" = @p, "v" = @v) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %p: tensor<2xf32> {train.port = #train.port<parameter, "p">, train.trainable},
    %v: tensor<2xf32> {train.port = #train.port<parameter, "v">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %y = nn.layer_norm(%x, %v, %p) {epsilon = 1.0e-5 : f32} : (!x, tensor<2xf32>, tensor<2xf32>) -> !x
  return %y : !x
}
