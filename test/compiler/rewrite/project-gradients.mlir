// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-project-gradients=rank=2 | FileCheck %s
// RUN: mebp-opt %s --mebp-project-gradients=rank=2 | FileCheck %s --check-prefix=WHOLE

// The factor is on the smaller side: right of %tall, left of %flat. The vector's gradient, and that of what two blocks
// read, stay whole.
// CHECK: nn.parameter @tall.0 : tensor<32x16xf32> {gradient_rank = 2 : i64, trainable}
// CHECK: nn.parameter @flat.0 : tensor<16x32xf32> {gradient_rank = 2 : i64, trainable}
// CHECK: nn.parameter @norm : tensor<16xf32> {trainable}
// CHECK: nn.parameter @shared : tensor<16x16xf32> {trainable}
// CHECK: train.block layer @one {{.*}} gradient_range = @layer.gradient_range, gradient_sketch = @layer.gradient_sketch

// CHECK-LABEL: func.func @layer.backward(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x16xf32, #nn.tokens> {{.*}}, %[[DY:.*]]: tensor<?x?x16xf32, #nn.tokens> {{.*}}, %[[TALL:[a-z0-9]+]]: tensor<32x16xf32>
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x16xf32> {train.port = #train.port<parameter, "tall.projector">}
// CHECK-SAME: %[[P:[a-z0-9]+]]: tensor<16x2xf32> {train.port = #train.port<parameter, "flat.projector">}
// CHECK-SAME: tensor<32x2xf32> {train.port = #train.port<gradient, "tall">}, tensor<2x32xf32> {train.port = #train.port<gradient, "flat">}
// CHECK: %[[LOWDY:.*]] = nn.linear_input_gradient(%[[DY]], %[[P]]) {{.*}} -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: nn.linear_weight_gradient(%[[LOWDY]], %{{.*}}) {{.*}} -> tensor<2x32xf32>
// CHECK: %[[LOWX:.*]] = nn.linear(%[[X]], %[[Q]]) {{.*}} -> tensor<?x?x2xf32, #nn.tokens>
// CHECK: nn.linear_weight_gradient(%{{.*}}, %[[LOWX]]) {{.*}} -> tensor<32x2xf32>
// CHECK: nn.linear_weight_gradient({{.*}} -> tensor<16x16xf32>

// What comes out of the one goes into the other, a little wider than the projector.
// CHECK-LABEL: func.func @layer.gradient_sketch(
// CHECK-SAME: tensor<32x10xf32> {train.port = #train.port<parameter, "tall.range">}
// CHECK-SAME: tensor<10x32xf32> {train.port = #train.port<parameter, "flat.range">}
// CHECK-SAME: -> (tensor<10x16xf32> {train.port = #train.port<gradient, "tall.sketch">}, tensor<16x10xf32> {train.port = #train.port<gradient, "flat.sketch">})
// CHECK-NOT: -> tensor<16x16xf32>
// CHECK-LABEL: func.func @layer.gradient_range(
// CHECK-SAME: tensor<10x16xf32> {train.port = #train.port<parameter, "tall.sketch">}
// CHECK-SAME: tensor<16x10xf32> {train.port = #train.port<parameter, "flat.sketch">}
// CHECK-SAME: -> (tensor<32x10xf32> {train.port = #train.port<gradient, "tall.range">}, tensor<10x32xf32> {train.port = #train.port<gradient, "flat.range">})

// WHOLE-NOT: linear_weight_gradient{{.*}}-> tensor<32x16xf32>
// WHOLE-NOT: linear_weight_gradient{{.*}}-> tensor<16x32xf32>

!x = tensor<?x?x16xf32, #nn.tokens>
!h = tensor<?x?x32xf32, #nn.tokens>
nn.parameter @tall.0 : tensor<32x16xf32> {trainable}
nn.parameter @flat.0 : tensor<16x32xf32> {trainable}
nn.parameter @tall.1 : tensor<32x16xf32> {trainable}
nn.parameter @flat.1 : tensor<16x32xf32> {trainable}
nn.parameter @norm : tensor<16xf32> {trainable}
nn.parameter @shared : tensor<16x16xf32> {trainable}
train.block layer @one parameters ("tall" = @tall.0, "flat" = @flat.0, "norm" = @norm, "same" = @shared) programs {backward = @layer.backward}
train.block layer @two parameters ("tall" = @tall.1, "flat" = @flat.1, "norm" = @norm, "same" = @shared) programs {backward = @layer.backward}

func.func @layer.backward(%x: !x {train.port = #train.port<flow, "hidden">}, %dy: !x {train.port = #train.port<flow, "hidden.cotangent">},
    %tall: tensor<32x16xf32> {train.port = #train.port<parameter, "tall">}, %flat: tensor<16x32xf32> {train.port = #train.port<parameter, "flat">},
    %same: tensor<16x16xf32> {train.port = #train.port<parameter, "same">})
    -> (!x {train.port = #train.port<flow, "hidden.cotangent">}, tensor<32x16xf32> {train.port = #train.port<gradient, "tall">},
        tensor<16x32xf32> {train.port = #train.port<gradient, "flat">}, tensor<16xf32> {train.port = #train.port<gradient, "norm">},
        tensor<16x16xf32> {train.port = #train.port<gradient, "same">}) {
  %h = nn.linear(%x, %tall) : (!x, tensor<32x16xf32>) -> !h
  %dh = nn.linear_input_gradient(%dy, %flat) : (!x, tensor<16x32xf32>) -> !h
  %dflat = nn.linear_weight_gradient(%dy, %h) : (!x, !h) -> tensor<16x32xf32>
  %dtall = nn.linear_weight_gradient(%dh, %x) : (!h, !x) -> tensor<32x16xf32>
  %dnorm = nn.bias_gradient(%dy) : (!x) -> tensor<16xf32>
  %dsame = nn.linear_weight_gradient(%dy, %x) : (!x, !x) -> tensor<16x16xf32>
  %dx = nn.linear_input_gradient(%dh, %tall) : (!h, tensor<32x16xf32>) -> !x
  %dz = nn.linear_input_gradient(%dx, %same) : (!x, tensor<16x16xf32>) -> !x
  return %dz, %dtall, %dflat, %dnorm, %dsame : !x, tensor<32x16xf32>, tensor<16x32xf32>, tensor<16xf32>, tensor<16x16xf32>
}
