// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-train-parameters --mebp-add-lora="rank=2 targets=all-linear" | FileCheck %s

// What is whole is trained itself, and gets no adapter; PEFT is told the other layer of its name in full.
// CHECK: mebp.lora = {{.*}}target_modules = ["encoder.dense"]
// CHECK: nn.parameter @encoder.dense.weight
// CHECK-NOT: trainable
// CHECK: nn.parameter @classifier.dense.weight : tensor<4x4xf32> {storage = "f32", trainable, whole}
// CHECK-NOT: classifier.dense.lora_A
// CHECK: func.func private @layer.forward(
// CHECK-SAME: {train.port = #train.port<parameter, "classifier.dense.weight">, train.trainable}
!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @encoder.dense.weight : tensor<4x4xf32> {storage = "int8"}
nn.parameter @classifier.dense.weight : tensor<4x4xf32> {storage = "f32", whole}
train.block layer @layer parameters ("encoder.dense.weight" = @encoder.dense.weight, "classifier.dense.weight" = @classifier.dense.weight) programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %w: tensor<4x4xf32> {train.port = #train.port<parameter, "encoder.dense.weight">},
    %c: tensor<4x4xf32> {train.port = #train.port<parameter, "classifier.dense.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %w) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.linear(%0, %c) : (!x, tensor<4x4xf32>) -> !x
  return %1 : !x
}
