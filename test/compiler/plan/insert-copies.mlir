// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-place-values | FileCheck %s

// Whatever shares memory, the verifier runs on a shadow of it once it is placed.

!x = tensor<4x8xf32>
!s = tensor<8x8xf32>

// Two sums that begin with the same zeros: common subexpressions made one of two. They are computed again.
// CHECK-LABEL: exec.program @two_sums
// CHECK: %[[ONE:.*]] = exec.kernel "fill"()
// CHECK: %[[OTHER:.*]] = exec.kernel "fill"()
// CHECK-NOT: "concat"
// CHECK: train.loop {{.*}} (%{{.*}} = %[[ONE]], %{{.*}} = %[[OTHER]])
exec.program @two_sums inputs [#train.port<flow, "hidden">] outputs [#train.port<gradient, "a">, #train.port<gradient, "b">] {
^bb0(%x: !x):
  %zero = exec.kernel "fill"() {value = 0.0 : f32} : () -> !s
  %0:2 = train.loop sequence 2 trip %t (%a = %zero, %b = %zero) : !s, !s {
    %1 = exec.kernel "linear_weight_gradient"(dy = %x, x = %x, accumulator = %a) {} : (!x, !x, !s) -> !s
    %2 = exec.kernel "linear_weight_gradient"(dy = %x, x = %x, accumulator = %b) {} : (!x, !x, !s) -> !s
    train.yield %1, %2 : !s, !s
  }
  exec.return %0#0, %0#1 : !s, !s
}

// A sum that is read after it was added to, and by two kernels that add to it.
// CHECK-LABEL: exec.program @read_later
// CHECK: %[[X:.*]] = exec.kernel "linear_weight_gradient"
// CHECK: %[[COPY:.*]] = exec.kernel "concat"(%[[X]])
// CHECK: exec.kernel "linear_weight_gradient"({{.*}} accumulator = %[[COPY]])
// CHECK: exec.kernel "linear_weight_gradient"({{.*}} accumulator = %[[X]])
exec.program @read_later inputs [#train.port<flow, "hidden">] outputs [#train.port<gradient, "a">, #train.port<gradient, "b">] {
^bb0(%x: !x):
  %sum = exec.kernel "linear_weight_gradient"(dy = %x, x = %x) {} : (!x, !x) -> !s
  %a = exec.kernel "linear_weight_gradient"(dy = %x, x = %x, accumulator = %sum) {} : (!x, !x, !s) -> !s
  %b = exec.kernel "linear_weight_gradient"(dy = %x, x = %x, accumulator = %sum) {} : (!x, !x, !s) -> !s
  exec.return %a, %b : !s, !s
}

// Two carried values that change places take one memory more.
// CHECK-LABEL: exec.program @change_places
// CHECK: (%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{[^ ]*}})
// CHECK-DAG: %[[A1:.*]] = exec.kernel "concat"(%[[A]])
// CHECK-DAG: %[[B1:.*]] = exec.kernel "concat"(%[[B]])
// CHECK: train.yield
exec.program @change_places inputs [#train.port<flow, "hidden">] outputs [#train.port<result, "a">, #train.port<result, "b">] {
^bb0(%x: !x):
  %i = exec.kernel "silu"(x = %x) {} : (!x) -> !x
  %j = exec.kernel "gelu"(x = %x) {} : (!x) -> !x
  %0:2 = train.loop sequence 2 trip %t (%a = %i, %b = %j) : !x, !x {
    train.yield %b, %a : !x, !x
  }
  exec.return %0#0, %0#1 : !x, !x
}

// The argument is read after the value that the next trip is to find in its place.
// CHECK-LABEL: exec.program @late
// CHECK: train.loop {{.*}} (%[[C:.*]] = %
// CHECK: %[[NEXT:.*]] = exec.kernel "silu"(x = %[[C]])
// CHECK: exec.kernel "add"(a = %[[C]]
// CHECK: %[[COPY:.*]] = exec.kernel "concat"(%[[NEXT]])
// CHECK: train.yield %[[COPY]]
exec.program @late inputs [#train.port<flow, "hidden">] outputs [#train.port<result, "a">] {
^bb0(%x: !x):
  %i = exec.kernel "silu"(x = %x) {} : (!x) -> !x
  %0 = train.loop sequence 2 trip %t (%c = %i) : !x {
    %next = exec.kernel "silu"(x = %c) {} : (!x) -> !x
    %late = exec.kernel "add"(a = %c, b = %next) {} : (!x, !x) -> !x
    train.yield %next : !x
  }
  exec.return %0 : !x
}

// An input is not the program's to write or to give back, and an output is one memory.
// CHECK-LABEL: exec.program @foreign
// CHECK-SAME: {{.*}} {
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<8x8xf32>):
// CHECK-NEXT: %[[START:.*]] = exec.kernel "concat"(%[[X]])
// CHECK-NEXT: %[[SUM:.*]] = exec.kernel "linear_weight_gradient"({{.*}} accumulator = %[[START]])
// CHECK-NEXT: %[[AGAIN:.*]] = exec.kernel "concat"(%[[X]])
// CHECK-NEXT: %[[SECOND:.*]] = exec.kernel "concat"(%[[SUM]])
// CHECK-NEXT: exec.return %[[SUM]], %[[AGAIN]], %[[SECOND]]
exec.program @foreign inputs [#train.port<flow, "hidden">] outputs [#train.port<result, "a">, #train.port<result, "b">, #train.port<result, "c">] {
^bb0(%x: !s):
  %sum = exec.kernel "linear_weight_gradient"(dy = %x, x = %x, accumulator = %x) {} : (!s, !s, !s) -> !s
  exec.return %sum, %x, %sum : !s, !s, !s
}

// What nothing takes over needs no copy.
// CHECK-LABEL: exec.program @plain
// CHECK-NOT: "concat"
exec.program @plain inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %a = exec.kernel "silu"(x = %x) {} : (!x) -> !x
  %b = exec.kernel "silu"(x = %a) {} : (!x) -> !x
  %y = exec.kernel "add"(a = %a, b = %b) {} : (!x, !x) -> !x
  exec.return %y : !x
}
