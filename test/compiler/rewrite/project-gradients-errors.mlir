// SPDX-License-Identifier: Apache-2.0
// RUN: not mebp-opt %s --mebp-project-gradients=rank=0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not mebp-opt %s --mebp-project-gradients=rank=5 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not mebp-opt %S/reduce-early.mlir --mebp-project-gradients=rank=2 2>&1 | FileCheck %s --check-prefix=NOTHING

// ZERO: error: --galore-rank 0: give a rank of at least 1
// LARGE: error: --galore-rank 5 is above the smaller side of 'layers.0.up.weight' (8 x 4): give at most 4
// NOTHING: error: --galore-rank: nothing that is trained is a linear layer's own weight, so there is no gradient to project; choose other --train-targets or another optimizer

!x = tensor<?x?x4xf32, #nn.tokens>
!y = tensor<?x?x8xf32, #nn.tokens>
nn.parameter @"layers.0.up.weight" : tensor<8x4xf32> {trainable}
train.block layer @layer parameters ("up.weight" = @"layers.0.up.weight") programs {backward = @layer.backward}
func.func @layer.backward(%x: !x {train.port = #train.port<flow, "hidden">}, %dy: !y {train.port = #train.port<flow, "out.cotangent">})
    -> (tensor<8x4xf32> {train.port = #train.port<gradient, "up.weight">}) {
  %0 = nn.linear_weight_gradient(%dy, %x) : (!y, !x) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
