// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-share-functions | FileCheck %s

// Layers 0 and 2 have one structure: they differ in what they bind, under the names of layer 0. Layer 1 has another, and so has the head.
// CHECK: train.block layer @layers.0 parameters ("a" = @a) programs {forward = @layer.0.forward}
// CHECK-NOT: func.func private @layers
// CHECK: func.func private @layer.0.forward
// CHECK: nn.linear
// CHECK: nn.silu
// CHECK: train.block layer @layers.1 parameters ("b" = @b) programs {forward = @layer.1.forward}
// CHECK: func.func private @layer.1.forward
// CHECK: nn.linear
// CHECK: nn.relu
// CHECK: train.block layer @layers.2 parameters ("a" = @b) programs {forward = @layer.0.forward}
// CHECK-NOT: func.func
// One function of a kind needs no number.
// CHECK: train.block head @head parameters ("a" = @a) programs {forward = @head.forward}
// CHECK: func.func private @head.forward
// CHECK-NOT: func.func

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @a : tensor<4x4xf32>
nn.parameter @b : tensor<4x4xf32>
train.block layer @layers.0 parameters ("a" = @a) programs {forward = @layers.0.forward}
func.func private @layers.0.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "a">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.silu(%0) : (!x) -> !x
  return %1 : !x
}
train.block layer @layers.1 parameters ("b" = @b) programs {forward = @layers.1.forward}
func.func private @layers.1.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "b">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.relu(%0) : (!x) -> !x
  return %1 : !x
}
train.block layer @layers.2 parameters ("b" = @b) programs {forward = @layers.2.forward}
func.func private @layers.2.forward(%other: !x {train.port = #train.port<flow, "hidden">},
    %weight: tensor<4x4xf32> {train.port = #train.port<parameter, "b">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %product = nn.linear(%other, %weight) : (!x, tensor<4x4xf32>) -> !x
  %gated = nn.silu(%product) : (!x) -> !x
  return %gated : !x
}
train.block head @head parameters ("a" = @a) programs {forward = @head.of.the.model}
func.func private @head.of.the.model(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "a">}) -> (!x {train.port = #train.port<result, "logits">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  return %0 : !x
}
