// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-place-values | FileCheck %s

// Inputs and outputs are bound. %a ends where %b begins and the kernel works in place; %c reads %b but does not, and
// takes the bytes behind it.
// CHECK: exec.program @take_over {{.*}} arena 256 placement [-1, 0, 0, 128, -1] in_place {
exec.program @take_over inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = exec.kernel "linear"(%b) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%c) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// The operand is read later, so the result has to lie elsewhere.
// CHECK: exec.program @read_later {{.*}} arena 256 placement [-1, 0, 128, -1] in_place {
exec.program @read_later inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "add"(%a, %b) slots [0, 1] ties [-1] reuses [-1] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// The largest first: the small values take what the large one leaves when it has ended. Offsets are multiples of 64.
// CHECK: exec.program @reuse {{.*}} arena 576 placement [-1, 512, 0, 512, 0, -1] in_place {
exec.program @reuse inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %small = exec.kernel "linear"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<1x3xf32>
  %large = exec.kernel "linear"(%small) slots [0] ties [-1] reuses [-1] {} : (tensor<1x3xf32>) -> tensor<16x8xf32>
  %next = exec.kernel "linear"(%large) slots [0] ties [-1] reuses [-1] {} : (tensor<16x8xf32>) -> tensor<1x3xf32>
  %last = exec.kernel "linear"(%next) slots [0] ties [-1] reuses [-1] {} : (tensor<1x3xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "linear"(%last) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// Memory that the output is made in, trip by trip, is the output's own. The slice has none. What the loop reads in
// every trip (%a) lives to its end, so no value of the body takes its place.
// CHECK: exec.program @loop {{.*}} arena 192 placement [-1, 0, -10, -10, -2, 128, -10, -1] in_place {
exec.program @loop inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<-1, -2>>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32, #exec.extent<-1, -2>>) -> tensor<4x8xf32, #exec.extent<-1, -2>>
  %empty = train.empty : tensor<4x8xf32, #exec.extent<-1, -2>>
  %y = train.loop sequence 2 trip %t (%c = %empty) : tensor<4x8xf32, #exec.extent<-1, -2>> {
    %rows = train.slice %a[%t] : tensor<4x8xf32, #exec.extent<-1, -2>> -> tensor<2x8xf32, #exec.extent<0, -2>>
    %0 = exec.kernel "silu"(%rows) slots [0] ties [-1] reuses [0] {} : (tensor<2x8xf32, #exec.extent<0, -2>>) -> tensor<2x8xf32, #exec.extent<0, -2>>
    %1 = train.update %0 into %c[%t] : tensor<2x8xf32, #exec.extent<0, -2>> into tensor<4x8xf32, #exec.extent<-1, -2>>
    train.yield %1 : tensor<4x8xf32, #exec.extent<-1, -2>>
  }
  exec.return %y : tensor<4x8xf32, #exec.extent<-1, -2>>
}

// A sum that a loop carries: what it begins with, its argument, the kernel's result and the loop's own are one place.
// CHECK: exec.program @accumulate {{.*}} arena 128 placement [-1, 0, 0, 0, 0, -1] in_place {
exec.program @accumulate inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %zero = exec.kernel "fill"() slots [] ties [-1] reuses [-1] {value = 0.0 : f32} : () -> tensor<4x8xf32>
  %sum = train.loop sequence 2 trip %t (%c = %zero) : tensor<4x8xf32> {
    %0 = exec.kernel "linear_weight_gradient"(%x, %x, %c) slots [0, 1, 2] ties [2] reuses [-1] {}
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    train.yield %0 : tensor<4x8xf32>
  }
  %y = exec.kernel "linear"(%sum) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}
