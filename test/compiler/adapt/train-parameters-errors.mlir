// SPDX-License-Identifier: Apache-2.0
// RUN: not mebp-opt %s --mebp-train-parameters="targets=*.down*" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not mebp-opt %s --mebp-train-parameters="targets=layers.[" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not mebp-opt %s --mebp-train-parameters="targets=*unread*" 2>&1 | FileCheck %s --check-prefix=UNREAD
// RUN: not mebp-opt %s --mebp-train-parameters="targets=*turned*" 2>&1 | FileCheck %s --check-prefix=TURNED
// RUN: not mebp-opt %s --mebp-train-parameters="targets=all-linear" 2>&1 | FileCheck %s --check-prefix=INT4

// NOTHING: error: --train-targets '*.down*': matches no parameter; the layers' names end in up, unread, turned
// PATTERN: error: --train-targets 'layers.[': invalid glob pattern, unmatched '['
// UNREAD: error: --train-targets: 'layers.0.unread.weight' is read by nothing, so it has no gradient; leave it out
// TURNED: error: --train-targets: 'layers.0.turned.weight' is stored as its transpose, which cannot be trained yet; leave it out
// INT4: error: --train-targets: 'layers.0.up.weight' would be stored as int4, which a step cannot change; give --weights bf16 or f32, --weights-for 'layers.0.up=bf16', or train LoRA

!x = tensor<?x?x4xf32, #nn.tokens>
nn.parameter @"layers.0.up.weight" : tensor<4x4xf32> {storage = "int4"}
nn.parameter @"layers.0.unread.weight" : tensor<4x4xf32> {storage = "f32"}
nn.parameter @"layers.0.turned.weight" : tensor<4x4xf32> {storage = "f32", transposed}
train.block layer @layer parameters ("up.weight" = @"layers.0.up.weight", "turned.weight" = @"layers.0.turned.weight") programs {forward = @layer.forward}
func.func private @layer.forward(%x: !x {train.port = #train.port<flow, "hidden">},
    %up: tensor<4x4xf32> {train.port = #train.port<parameter, "up.weight">},
    %turned: tensor<4x4xf32> {train.port = #train.port<parameter, "turned.weight">}) -> (!x {train.port = #train.port<flow, "hidden">}) {
  %0 = nn.linear(%x, %up) : (!x, tensor<4x4xf32>) -> !x
  %1 = nn.linear(%0, %turned) : (!x, tensor<4x4xf32>) -> !x
  return %1 : !x
}
