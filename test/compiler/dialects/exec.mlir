// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s | mebp-opt | FileCheck %s
// RUN: mebp-opt %s --mlir-print-op-generic | mebp-opt | FileCheck %s

!x = tensor<256x8xf32, #exec.extent<tokens, whole>>
!c = tensor<16x8xf32, #exec.extent<chunk, whole>>

// CHECK: exec.program @plain inputs [#train.port<flow, "hidden">, #train.port<parameter, "p3">] outputs [#train.port<flow, "hidden">] {
exec.program @plain inputs [#train.port<flow, "hidden">, #train.port<parameter, "p3">] outputs [#train.port<flow, "hidden">] {
// CHECK: ^bb0(%{{.*}}: tensor<256x8xf32, #exec.extent<tokens, whole>>, %{{.*}}: tensor<8x8xf32>):
^bb0(%x: !x, %w: tensor<8x8xf32>):
  // An optional operand that is absent leaves no gap; the names say which the others are.
  // CHECK: exec.kernel "linear"(x = %{{.*}}, w = %{{.*}}, addend = %{{.*}}) {alpha = 1.000000e+00 : f32} :
  %0 = exec.kernel "linear"(x = %x, w = %w, addend = %x) {alpha = 1.0 : f32} : (!x, tensor<8x8xf32>, !x) -> !x
  // CHECK: exec.kernel "concat"(%{{.*}}, %{{.*}}) {} :
  %1 = exec.kernel "concat"(%0, %x) {} : (!x, !x) -> tensor<256x16xf32, #exec.extent<tokens, whole>>
  // CHECK: exec.kernel "fill"() {value = 0.000000e+00 : f32} :
  %2 = exec.kernel "fill"() {value = 0.0 : f32} : () -> tensor<1x8xf32>
  // CHECK: exec.return %{{.*}} : tensor<256x8xf32, #exec.extent<tokens, whole>>
  exec.return %0 : !x
}

// The loop's argument, the update and the result lie where the loop began; the slice has no place of its own.
// CHECK: exec.program @placed
exec.program @placed inputs [#train.port<flow, "hidden">, #train.port<parameter, "p0">] outputs [#train.port<flow, "hidden">] in_place {
^bb0(%x: !x, %w: tensor<1x8xf32>):
  // CHECK: exec.empty at <output 0> : tensor<256x8xf32, #exec.extent<tokens, whole>>
  %empty = exec.empty at <output 0> : !x
  %y = train.loop sequence 16 trip %t (%c = %empty) : !x {
    %rows = train.slice %x[%t] : !x -> !c
    // CHECK: exec.kernel "rms_norm"(x = %{{.*}}, w = %{{.*}}) at [#exec.place<arena 0>] {epsilon = 9.99999974E-6 : f32} :
    %n = exec.kernel "rms_norm"(x = %rows, w = %w) at [#exec.place<arena 0>] {epsilon = 1.0e-5 : f32}
        : (!c, tensor<1x8xf32>) -> !c
    %next = train.update %n into %c[%t] : !c into !x
    train.yield %next : !x
  }
  exec.return %y : !x
}
