// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-keep-values="rest-price=0.05 narrow=false" | FileCheck %s --check-prefix=WIDE
// RUN: mebp-opt %s --mebp-keep-values="rest-price=0.1 narrow=false" | FileCheck %s --check-prefix=SLIM
// RUN: mebp-opt %s --mebp-keep-values="rest-price=0.15 narrow=true" | FileCheck %s --check-prefix=SLIM
// RUN: mebp-opt %s --mebp-keep-values="rest-price=0.15 narrow=false" | FileCheck %s --check-prefix=NONE
// RUN: mebp-opt %s --mebp-keep-values | FileCheck %s --check-prefix=NONE
// RUN: mebp-opt %s --mebp-keep-values="layers=1 price=0.05 rest-price=0.1 narrow=false" | FileCheck %s --check-prefix=BOTH
// RUN: mebp-opt %s --mebp-keep-values="layers=1 price=0.05 narrow=false" --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values -o /dev/null
// RUN: mebp-opt %s --mebp-keep-values="rest-price=0.05 narrow=false" --mebp-chunk-sequence=size=16 --mebp-narrow-activations --mebp-lower-to-exec="batch=2 sequence=40" --mebp-place-values -o /dev/null

// The backward reads %g alone. It takes a second if %h is there, 16 bytes of a row, which takes two more; %g itself is 32
// bytes. So keeping %g costs 32 prices, %h 16 prices and a second, neither 3 seconds; with bf16, half as many prices.
!x = tensor<?x?x4xf32, #nn.tokens>
!g = tensor<?x?x8xf32, #nn.tokens>
nn.parameter @w : tensor<4x4xf32>
nn.parameter @v : tensor<8x4xf32>
nn.parameter @a : tensor<4x8xf32> {trainable}
nn.parameter @b : tensor<4x8xf32> {trainable}

// WIDE: train.block layer @first {{.*}}backward = @layer.backward.kept, forward = @layer.forward.kept
// WIDE: train.block layer @second {{.*}}backward = @layer.backward.kept, forward = @layer.forward.kept
// WIDE-NOT: func.func @layer.forward(
// WIDE: func.func @layer.forward.kept(
// WIDE-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<kept, "mlp.gate">})
// WIDE: %[[G:.*]] = nn.linear({{.*}} -> tensor<?x?x8xf32, #nn.tokens>
// WIDE: return %{{.*}}, %[[G]]
// WIDE-NOT: func.func @layer.backward(
// WIDE: func.func @layer.backward.kept(
// WIDE-SAME: %[[KEPT:[^ ]*]]: tensor<?x?x8xf32, #nn.tokens> {train.port = #train.port<kept, "mlp.gate">})
// WIDE-NOT: nn.linear(
// WIDE: nn.linear_weight_gradient(%{{.*}}, %[[KEPT]])
// WIDE-NOT: mebp.seconds

// SLIM: func.func @layer.forward.kept(
// SLIM-SAME: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<kept, "mlp.up">})
// SLIM: func.func @layer.backward.kept(
// SLIM-SAME: %[[KEPT:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<kept, "mlp.up">})
// SLIM: %[[G:.*]] = nn.linear(%[[KEPT]], %{{.*}})
// SLIM: nn.linear_weight_gradient(%{{.*}}, %[[G]])

// NONE: train.block layer @first {{.*}}backward = @layer.backward, forward = @layer.forward
// NONE-NOT: kept
// NONE-NOT: mebp.seconds

// BOTH: train.block layer @first {{.*}}backward = @layer.backward.kept, forward = @layer.forward.kept
// BOTH: train.block layer @second {{.*}}backward = @layer.backward.kept_0, forward = @layer.forward.kept_0
// BOTH-DAG: func.func @layer.forward.kept({{.*}}#train.port<kept, "mlp.gate">
// BOTH-DAG: func.func @layer.forward.kept_0({{.*}}#train.port<kept, "mlp.up">
train.block layer @first parameters ("w" = @w, "v" = @v, "a" = @a) programs {forward = @layer.forward, backward = @layer.backward}
train.block layer @second parameters ("w" = @w, "v" = @v, "a" = @b) programs {forward = @layer.forward, backward = @layer.backward}
func.func @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %v: tensor<8x4xf32> {train.port = #train.port<parameter, "v">},
    %a: tensor<4x8xf32> {train.port = #train.port<parameter, "a">, train.trainable}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %h = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x loc("up"("model.layers.0.mlp.up"))
  %g = nn.linear(%h, %v) : (!x, tensor<8x4xf32>) -> !g loc("gate"("model.layers.0.mlp.gate"))
  %y = nn.linear(%g, %a) : (!g, tensor<4x8xf32>) -> !x
  return %y : !x
}
func.func @layer.backward(%x: !x {train.port = #train.port<flow, "hidden">},
    %dy: !x {train.port = #train.port<flow, "hidden.cotangent">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "w">},
    %v: tensor<8x4xf32> {train.port = #train.port<parameter, "v">},
    %a: tensor<4x8xf32> {train.port = #train.port<parameter, "a">, train.trainable})
    -> (!x {train.port = #train.port<flow, "hidden.cotangent">}, tensor<4x8xf32> {train.port = #train.port<gradient, "a">}) {
  %h = nn.linear(%x, %w) {mebp.seconds = 2.0} : (!x, tensor<4x4xf32>) -> !x
  %g = nn.linear(%h, %v) {mebp.seconds = 1.0} : (!x, tensor<8x4xf32>) -> !g
  %da = nn.linear_weight_gradient(%dy, %g) {mebp.seconds = 9.0} : (!x, !g) -> tensor<4x8xf32>
  %dg = nn.linear_input_gradient(%dy, %a) : (!x, tensor<4x8xf32>) -> !g
  %dh = nn.linear_input_gradient(%dg, %v) : (!g, tensor<8x4xf32>) -> !x
  %dx = nn.linear_input_gradient(%dh, %w) : (!x, tensor<4x4xf32>) -> !x
  return %dx, %da : !x, tensor<4x8xf32>
}
