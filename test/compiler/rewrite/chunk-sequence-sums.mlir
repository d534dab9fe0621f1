// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-chunk-sequence=size=16 | FileCheck %s

!x = tensor<?x?x4xf32, #nn.tokens>
!w = tensor<4x4xf32>
nn.parameter @w : !w
nn.parameter @a : !w

// Ops of weights alone run before the loop where it reads them, and behind it where they read its sums. A sum goes on
// from what its op adds to already: a parameter's accumulator from before the loop, or another sum, added behind it.
// CHECK-LABEL: func.func private @weights.forward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %[[W:[^ ]*]]: tensor<4x4xf32> {{.*}}, %[[A:[^ ]*]]: tensor<4x4xf32>
// CHECK: %[[WW:.*]] = nn.add(%[[W]], %[[W]])
// CHECK: %[[ZERO:.*]] = nn.fill() {value = 0.000000e+00 : f32} : () -> tensor<4x4xf32>
// CHECK: %[[L:.*]]:3 = train.loop sequence 16 trip %{{.*}} (%[[S0:[^ ]*]] = %[[A]], %[[S1:[^ ]*]] = %[[ZERO]], %{{[^ ]*}} = %{{[^ ]*}})
// CHECK: nn.linear(%{{.*}}, %[[WW]])
// CHECK: nn.linear_weight_gradient(%{{.*}}, %{{.*}}, %[[S0]])
// CHECK: nn.linear_weight_gradient(%{{.*}}, %{{.*}}, %[[S1]])
// CHECK: %[[BOTH:.*]] = nn.add(%[[L]]#1, %[[L]]#0)
// CHECK: %[[SUM:.*]] = nn.add(%[[BOTH]], %[[W]])
// CHECK: return %[[L]]#2, %[[SUM]]
train.block layer @weights parameters ("w" = @w, "a" = @a) programs {forward = @weights.forward}
func.func private @weights.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: !w {train.port = #train.port<parameter, "w">},
    %a: !w {train.port = #train.port<parameter, "a">}) -> (!x {train.port = #train.port<flow, "hidden">}, !w) {
  %ww = nn.add(%w, %w) : (!w, !w) -> !w
  %y = nn.linear(%x, %ww) : (!x, !w) -> !x
  %0 = nn.linear_weight_gradient(%y, %x, %a) : (!x, !x, !w) -> !w
  %1 = nn.linear_weight_gradient(%x, %y, %0) : (!x, !x, !w) -> !w
  %sum = nn.add(%1, %w) : (!w, !w) -> !w
  return %y, %sum : !x, !w
}
