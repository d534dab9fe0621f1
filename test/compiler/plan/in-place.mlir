// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --mebp-place-values | FileCheck %s

!x = tensor<4x8xf32, #exec.extent<tokens, whole>>
!c = tensor<2x8xf32, #exec.extent<chunk, whole>>

// Each trip reads its own rows before it writes them.
// CHECK: exec.program @chunks {{.*}}] in_place {
exec.program @chunks inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %empty = exec.empty : !x
  %y = train.loop sequence 2 trip %t (%c = %empty) : !x {
    %rows = train.slice %x[%t] : !x -> !c
    %a = exec.kernel "silu"(x = %rows) {} : (!c) -> !c
    %b = exec.kernel "add"(a = %a, b = %rows) {} : (!c, !c) -> !c
    %next = train.update %b into %c[%t] : !c into !x
    train.yield %next : !x
  }
  exec.return %y : !x
}

// It is the cotangent that is replaced; the activation may be read at any time.
// CHECK: exec.program @cotangent {{.*}}] in_place {
exec.program @cotangent inputs [#train.port<flow, "hidden">, #train.port<flow, "hidden.cotangent">] outputs [#train.port<flow, "hidden.cotangent">] {
^bb0(%x: !x, %dy: !x):
  %a = exec.kernel "silu"(x = %dy) {} : (!x) -> !x
  %empty = exec.empty : !x
  %dx = train.loop sequence_reversed 2 trip %t (%c = %empty) : !x {
    %rows = train.slice %a[%t] : !x -> !c
    %b:2 = exec.kernel "attention"(q = %rows, k = %x, v = %x) {heads = 1 : i64, kv_heads = 1 : i64} : (!c, !x, !x) -> (!c, tensor<2x1xf32, #exec.extent<chunk, whole>>)
    %next = train.update %b#0 into %c[%t] : !c into !x
    train.yield %next : !x
  }
  exec.return %dx : !x
}

// A later trip reads rows that an earlier one has written.
// CHECK: exec.program @whole_in_a_trip {{.*}}] {
exec.program @whole_in_a_trip inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %empty = exec.empty : !x
  %y = train.loop sequence 2 trip %t (%c = %empty) : !x {
    %rows = train.slice %x[%t] : !x -> !c
    %a:2 = exec.kernel "attention"(q = %rows, k = %x, v = %x) {heads = 1 : i64, kv_heads = 1 : i64} : (!c, !x, !x) -> (!c, tensor<2x1xf32, #exec.extent<chunk, whole>>)
    %next = train.update %a#0 into %c[%t] : !c into !x
    train.yield %next : !x
  }
  exec.return %y : !x
}

// The rows are read again after they were written.
// CHECK: exec.program @read_after_the_update {{.*}}] {
exec.program @read_after_the_update inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">, #train.port<result, "loss">] {
^bb0(%x: !x):
  %empty = exec.empty : !x
  %zero = exec.kernel "fill"() {} : () -> !x
  %y:2 = train.loop sequence 2 trip %t (%c = %empty, %d = %zero) : !x, !x {
    %rows = train.slice %x[%t] : !x -> !c
    %a = exec.kernel "silu"(x = %rows) {} : (!c) -> !c
    %next = train.update %a into %c[%t] : !c into !x
    %b = exec.kernel "silu"(x = %rows) {} : (!c) -> !c
    %other = train.update %b into %d[%t] : !c into !x
    train.yield %next, %other : !x, !x
  }
  exec.return %y#0, %y#1 : !x, !x
}

// A kernel that reads the input writes the output, and may leave its result in that operand's memory.
// CHECK: exec.program @one_kernel {{.*}}] in_place {
exec.program @one_kernel inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %y = exec.kernel "silu"(x = %x) {} : (!x) -> !x
  exec.return %y : !x
}

// This one may do so with its other operand alone.
// CHECK: exec.program @other_operand {{.*}}] {
exec.program @other_operand inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %zero = exec.kernel "fill"() {} : () -> !x
  %y = exec.kernel "add"(a = %zero, b = %x) {} : (!x, !x) -> !x
  exec.return %y : !x
}

// Rows beyond the trip's would be lost before they are read.
// CHECK: exec.program @filled_first {{.*}}] {
exec.program @filled_first inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %zero = exec.kernel "fill"() {} : () -> !x
  %y = train.loop sequence 2 trip %t (%c = %zero) : !x {
    %rows = train.slice %x[%t] : !x -> !c
    %a = exec.kernel "silu"(x = %rows) {} : (!c) -> !c
    %next = train.update %a into %c[%t] : !c into !x
    train.yield %next : !x
  }
  exec.return %y : !x
}

// What goes out does not fit what comes in.
// CHECK: exec.program @another_type {{.*}}] {
exec.program @another_type inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: !x):
  %y = exec.kernel "concat"(%x, %x) {} : (!x, !x) -> tensor<4x16xf32, #exec.extent<tokens, whole>>
  exec.return %y : tensor<4x16xf32, #exec.extent<tokens, whole>>
}
