// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-differentiate-blocks | FileCheck %s
// Several flows, of widths of their own: a backward takes a cotangent of each that the forward gives, and gives one of
// each that it takes, in the order of the forward's.

!x = tensor<?x?x4xf32, #nn.tokens>
!v = tensor<?x?x6xf32, #nn.tokens>
nn.parameter @w : tensor<4x6xf32> {trainable}

// CHECK: train.block layer @layer {{.*}} programs {backward = @layer.backward, forward = @layer.forward}
train.block layer @first parameters ("w" = @w) programs {forward = @layer.forward}
train.block layer @layer parameters ("w" = @w) programs {forward = @layer.forward}

// CHECK-LABEL: func.func private @layer.backward(
// CHECK-SAME: %[[X:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}
// CHECK-SAME: %[[V:[^ ]*]]: tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<flow, "values">}
// CHECK-SAME: %[[DY:[^ ]*]]: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: %[[DV:[^ ]*]]: tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<flow, "values.cotangent">}
// CHECK-SAME: %[[W:[^ ]*]]: tensor<4x6xf32> {train.port = #train.port<parameter, "w">, train.trainable}
// CHECK-SAME: -> (tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden.cotangent">}
// CHECK-SAME: tensor<?x?x6xf32, #nn.tokens> {train.port = #train.port<flow, "values.cotangent">}
// CHECK-SAME: tensor<4x6xf32> {train.port = #train.port<gradient, "w">})
// CHECK-DAG: %[[DW:.*]] = nn.linear_weight_gradient(%[[DY]], %[[V]])
// CHECK-DAG: %[[DU:.*]] = nn.linear_input_gradient(%[[DY]], %[[W]])
// CHECK-DAG: %[[SUM:.*]] = nn.add(%[[DV]], %[[DU]])
// CHECK: return %[[DY]], %[[SUM]], %[[DW]]
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %v: !v {train.port = #train.port<flow, "values">},
    %w: tensor<4x6xf32> {train.port = #train.port<parameter, "w">, train.trainable})
    -> (!x {train.port = #train.port<flow, "hidden">}, !v {train.port = #train.port<flow, "values">}) {
  %y = nn.linear(%v, %w addend %x) : (!v, tensor<4x6xf32>, !x) -> !x
  return %y, %v : !x, !v
}
