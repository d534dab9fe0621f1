// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-keep-values="rest-price=0.0001 narrow=false" | FileCheck %s

// What dropout reads is kept, and not what it gives, of which each adapter has one of its own.
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @w : tensor<4x4xf32>
nn.parameter @a : tensor<2x4xf32> {trainable}
nn.parameter @b : tensor<2x4xf32> {trainable}

// CHECK: func.func @layer.forward.kept(
// CHECK-SAME: -> ({{.*}} {train.port = #train.port<flow, "hidden">}, tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<kept, "mlp.up">})
// CHECK: func.func @layer.backward.kept(
// CHECK-SAME: %[[KEPT:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<kept, "mlp.up">})
// CHECK-NOT: nn.linear(
// CHECK: %[[D:.*]] = nn.dropout(%[[KEPT]]) {{{.*}}salt = 0 : i64}
// CHECK-NEXT: nn.linear_weight_gradient(%{{.*}}, %[[D]])
// CHECK-NEXT: %[[E:.*]] = nn.dropout(%[[KEPT]]) {{{.*}}salt = 1 : i64}
// CHECK-NEXT: nn.linear_weight_gradient(%{{.*}}, %[[E]])
train.block layer @layer parameters ("w" = @w, "a" = @a, "b" = @b) programs {forward = @layer.forward, backward = @layer.backward}
func.func @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %a: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable},
    %b: tensor<2x4xf32> {train.port = #train.port<parameter, "b">, train.trainable})
    -> (tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) {
  %h = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x loc("up"("model.layers.0.mlp.up"))
  %d = nn.dropout(%h) {p = 0.5 : f32, salt = 0 : i64} : (!x) -> !x
  %y = nn.linear(%d, %a) : (!x, tensor<2x4xf32>) -> tensor<?x?x2xf32, #nn.tokens>
  %e = nn.dropout(%h) {p = 0.5 : f32, salt = 1 : i64} : (!x) -> !x
  %z = nn.linear(%e, %b addend %y) : (!x, tensor<2x4xf32>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x2xf32, #nn.tokens>
  return %z : tensor<?x?x2xf32, #nn.tokens>
}
func.func @layer.backward(%x: !x {train.port = #train.port<flow, "hidden">},
    %dy: tensor<?x?x2xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %a: tensor<2x4xf32> {train.port = #train.port<parameter, "a">, train.trainable},
    %b: tensor<2x4xf32> {train.port = #train.port<parameter, "b">, train.trainable})
    -> (tensor<2x4xf32> {train.port = #train.port<gradient, "a">}, tensor<2x4xf32> {train.port = #train.port<gradient, "b">}) {
  %h = nn.linear(%x, %w) {mebp.seconds = 2.0} : (!x, tensor<4x4xf32>) -> !x
  %d = nn.dropout(%h) {mebp.seconds = 1.0, p = 0.5 : f32, salt = 0 : i64} : (!x) -> !x
  %da = nn.linear_weight_gradient(%dy, %d) {mebp.seconds = 9.0} : (tensor<?x?x2xf32, #nn.tokens>, !x) -> tensor<2x4xf32>
  %e = nn.dropout(%h) {mebp.seconds = 1.0, p = 0.5 : f32, salt = 1 : i64} : (!x) -> !x
  %db = nn.linear_weight_gradient(%dy, %e) {mebp.seconds = 9.0} : (tensor<?x?x2xf32, #nn.tokens>, !x) -> tensor<2x4xf32>
  return %da, %db : tensor<2x4xf32>, tensor<2x4xf32>
}
