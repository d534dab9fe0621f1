// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-place-values | FileCheck %s
// RUN: mebp-opt %s --mebp-place-values --cse --canonicalize | FileCheck %s

!x = tensor<4x8xf32, #exec.extent<tokens, whole>>
!c = tensor<2x8xf32, #exec.extent<chunk, whole>>

// Outputs are bound. %a ends where %b begins and the kernel works in place; %c reads %b but does not, and takes the
// bytes behind it.
// CHECK: exec.program @take_over {{.*}} in_place {
// CHECK: "silu"{{.*}} at [#exec.place<arena 0>]
// CHECK: "silu"{{.*}} at [#exec.place<arena 0>]
// CHECK: "linear"{{.*}} at [#exec.place<arena 128>]
// CHECK: "silu"{{.*}} at [#exec.place<output 0>]
exec.program @take_over inputs [#train.port<flow, "hidden">, #train.port<parameter, "w">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %a = exec.kernel "silu"(x = %x) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = exec.kernel "silu"(x = %a) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = exec.kernel "linear"(x = %b, w = %w) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %c) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// The operand is read later, so the result has to lie elsewhere.
// CHECK: exec.program @read_later
// CHECK: "silu"{{.*}} at [#exec.place<arena 0>]
// CHECK: "silu"{{.*}} at [#exec.place<arena 128>]
// CHECK: "add"{{.*}} at [#exec.place<output 0>]
exec.program @read_later inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(x = %x) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = exec.kernel "silu"(x = %a) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "add"(a = %a, b = %b) {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// The largest first: the small values take what the large one leaves when it has ended. Offsets are multiples of 64.
// Once it is placed, what computes the same twice is left as it is, and so is what nobody reads.
// CHECK: exec.program @reuse
// CHECK: "linear"{{.*}} at [#exec.place<arena 1024>]
// CHECK: "linear"{{.*}} at [#exec.place<arena 0>]
// CHECK: "linear"{{.*}} at [#exec.place<arena 0>]
// CHECK: "linear"{{.*}} at [#exec.place<arena 128>]
// CHECK: "linear"{{.*}} at [#exec.place<output 0>]
exec.program @reuse inputs [#train.port<flow, "hidden">, #train.port<parameter, "w">, #train.port<parameter, "u">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %u: tensor<64x8xf32>):
  %small = exec.kernel "linear"(x = %x, w = %w) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %large = exec.kernel "linear"(x = %small, w = %u) {} : (tensor<4x8xf32>, tensor<64x8xf32>) -> tensor<4x64xf32>
  %next = exec.kernel "linear"(x = %x, w = %w) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %unread = exec.kernel "linear"(x = %x, w = %w) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "linear"(x = %next, w = %w) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// Memory that the output is made in, trip by trip, is the output's own. What the loop reads in every trip (%a) lives to
// its end, so no value of the body takes its place.
// CHECK: exec.program @loop {{.*}} in_place {
// CHECK: "silu"{{.*}} at [#exec.place<arena 0>]
// CHECK: exec.empty at <output 0>
// CHECK: "silu"{{.*}} at [#exec.place<arena 128>]
exec.program @loop inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %a = exec.kernel "silu"(x = %x) {} : (!x) -> !x
  %empty = exec.empty : !x
  %y = train.loop sequence 2 trip %t (%c = %empty) : !x {
    %rows = train.slice %a[%t] : !x -> !c
    %0 = exec.kernel "silu"(x = %rows) {} : (!c) -> !c
    %1 = train.update %0 into %c[%t] : !c into !x
    train.yield %1 : !x
  }
  exec.return %y : !x
}

// A sum that a loop carries: what it begins with, its argument, the kernel's result and the loop's own are one place.
// CHECK: exec.program @accumulate
// CHECK: "fill"{{.*}} at [#exec.place<arena 0>]
// CHECK: "linear_weight_gradient"{{.*}} at [#exec.place<arena 0>]
// CHECK: "linear"{{.*}} at [#exec.place<output 0>]
exec.program @accumulate inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %zero = exec.kernel "fill"() {value = 0.0 : f32} : () -> tensor<8x8xf32>
  %sum = train.loop sequence 2 trip %t (%c = %zero) : tensor<8x8xf32> {
    %0 = exec.kernel "linear_weight_gradient"(dy = %x, x = %x, accumulator = %c) {}
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    train.yield %0 : tensor<8x8xf32>
  }
  %y = exec.kernel "linear"(x = %x, w = %sum) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}
