// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s | mebp-opt | FileCheck %s
// RUN: mebp-opt %s --mlir-print-op-generic | mebp-opt | FileCheck %s

// CHECK: exec.program @plain inputs [#train.port<flow, "hidden">, #train.port<parameter, "p3">] outputs [#train.port<flow, "hidden">] {
exec.program @plain inputs [#train.port<flow, "hidden">, #train.port<parameter, "p3">] outputs [#train.port<flow, "hidden">] {
// CHECK: ^bb0(%{{.*}}: tensor<256x8xf32, #exec.extent<-1, -2>>, %{{.*}}: tensor<1x8xf32>):
^bb0(%x: tensor<256x8xf32, #exec.extent<-1, -2>>, %w: tensor<1x8xf32>):
  // CHECK: exec.kernel "rms_norm"(%{{.*}}, %{{.*}}) slots [0, 1] ties [-1] reuses [0] {epsilon = 9.99999974E-6 : f32} :
  %0 = exec.kernel "rms_norm"(%x, %w) slots [0, 1] ties [-1] reuses [0] {epsilon = 1.0e-5 : f32}
      : (tensor<256x8xf32, #exec.extent<-1, -2>>, tensor<1x8xf32>) -> tensor<256x8xf32, #exec.extent<-1, -2>>
  // CHECK: exec.return %{{.*}} : tensor<256x8xf32, #exec.extent<-1, -2>>
  exec.return %0 : tensor<256x8xf32, #exec.extent<-1, -2>>
}

// The loop's argument, the update and the result lie where the output does; the slice has no place of its own.
// CHECK: exec.program @placed {{.*}} arena 512 placement [-1, -1, -10, -10, -2, 0, -10, -1] {
exec.program @placed inputs [#train.port<flow, "hidden">, #train.port<parameter, "p0">] outputs [#train.port<flow, "hidden">]
    arena 512 placement [-1, -1, -10, -10, -2, 0, -10, -1] {
^bb0(%x: tensor<256x8xf32, #exec.extent<-1, -2>>, %w: tensor<1x8xf32>):
  %empty = train.empty : tensor<256x8xf32, #exec.extent<-1, -2>>
  %y = train.loop sequence 16 trip %t (%c = %empty) : tensor<256x8xf32, #exec.extent<-1, -2>> {
    %rows = train.slice %x[%t] : tensor<256x8xf32, #exec.extent<-1, -2>> -> tensor<16x8xf32, #exec.extent<0, -2>>
    %n = exec.kernel "rms_norm"(%rows, %w) slots [0, 1] ties [-1] reuses [0] {epsilon = 1.0e-5 : f32}
        : (tensor<16x8xf32, #exec.extent<0, -2>>, tensor<1x8xf32>) -> tensor<16x8xf32, #exec.extent<0, -2>>
    %next = train.update %n into %c[%t] : tensor<16x8xf32, #exec.extent<0, -2>> into tensor<256x8xf32, #exec.extent<-1, -2>>
    train.yield %next : tensor<256x8xf32, #exec.extent<-1, -2>>
  }
  exec.return %y : tensor<256x8xf32, #exec.extent<-1, -2>>
}
