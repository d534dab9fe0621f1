// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op needs one entry in 'ties' and in 'reuses' for each result}}
  %0 = exec.kernel "silu"(%x) slots [0] ties [] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op refers to input 1 of 1}}
  %0 = exec.kernel "silu"(%x) slots [1] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op refers to input 1 of 1}}
  %0 = exec.kernel "silu"(%x) slots [0] ties [1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op refers to input 1 of 1}}
  %0 = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

// expected-error @below {{'exec.program' op does not end with exec.return}}
exec.program @p inputs [] outputs [] {
  "other.return"() : () -> ()
}

// -----

// expected-error @below {{'exec.program' op has another number of ports than of inputs or outputs}}
exec.program @p inputs [] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has another number of ports than of inputs or outputs}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  exec.return %x : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op has "activation" where a #train.port belongs}}
exec.program @p inputs ["activation"] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has a value that is not a matrix of a known largest size: 'tensor<?x8xf32>'}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<?x8xf32>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has a value that is not a matrix of a known largest size: 'tensor<8xf32>'}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<8xf32>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has a value that is not a matrix of a known largest size: 'tensor<2x4x8xf32>'}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<2x4x8xf32>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op places 2 values, but has 3}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 0] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op places value 1 beyond the end of its arena}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 64, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op does not bind value 0, which is an input or output}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [0, 0, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op does not bind value 2, which is an input or output}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 0, 0] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op binds value 1, which is no input or output}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, -1, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op places value 1 as a slice, which it is not}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, -2, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op lets value 1 share the memory of input 0, which is not the program's to write}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, -3, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op lets value 1 share the memory of value 1, which is not bound}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, -4, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op lets value 1 share the memory of value 6, which is not bound}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, -9, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op lets value 1 share the memory of value 2, which is smaller}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 0 placement [-1, -5, -1] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "concat"(%x, %x) slots [0, 1] ties [-1] reuses [-1] {}
      : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %y = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op returns its input 0, which it cannot hand over}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 0 placement [-1] {
^bb0(%x: tensor<4x8xf32>):
  exec.return %x : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op places value 1, which is a slice, by itself}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] arena 128 placement [-1, 0] {
^bb0(%x: tensor<4x8xf32>):
  train.loop sequence 2 trip %t () {
    %rows = train.slice %x[%t] : tensor<4x8xf32> -> tensor<2x8xf32>
  }
  exec.return
}

// -----

// Both are read by the same kernel.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 0, 0, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %b = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "add"(%a, %b) slots [0, 1] ties [-1] reuses [-1] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// They overlap in part only.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 192 placement [-1, 0, 64, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %b = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "add"(%a, %b) slots [0, 1] ties [-1] reuses [-1] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// The kernel does not work in place.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 0, 0, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %b = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%b) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// The kernel works in place, but its operand is read again.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 0, 0, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %b = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "add"(%a, %b) slots [0, 1] ties [-1] reuses [-1] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// In place means at the same offset.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 192 placement [-1, 0, 64, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %b = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(%b) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// Every trip reads %a again: what comes before the loop lives to its end.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 0, 0, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  train.loop sequence 2 trip %t () {
    // expected-note @below {{value 2 is defined here}}
    %b = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  }
  %y = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// The reader of a slice reads what it looks into.
// expected-error @below {{'exec.program' op places value 3 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, 0, -2, 0, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  train.loop sequence 4 trip %t () {
    %rows = train.slice %a[%t] : tensor<4x8xf32> -> tensor<4x8xf32>
    // expected-note @below {{value 3 is defined here}}
    %b = exec.kernel "silu"(%rows) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  }
  %y = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// The argument is read after the value that the next trip finds in its place.
// expected-error @below {{'exec.program' op places value 3 over value 2 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 128 placement [-1, -8, -8, -8, 0, -1] {
^bb0(%x: tensor<4x8xf32>):
  %init = train.empty : tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %y = train.loop sequence 2 trip %t (%c = %init) : tensor<4x8xf32> {
    // expected-note @below {{value 3 is defined here}}
    %next = exec.kernel "silu"(%c) slots [0] ties [-1] reuses [0] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %late = exec.kernel "silu"(%c) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    train.yield %next : tensor<4x8xf32>
  }
  exec.return %y : tensor<4x8xf32>
}

// -----

// An output's memory is written twice.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">]
    arena 0 placement [-1, -5, -1] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %a = exec.kernel "silu"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %y = exec.kernel "silu"(%a) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op is in place, but reads what it would have overwritten}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] in_place {
^bb0(%x: tensor<4x8xf32>):
  %y = exec.kernel "linear"(%x) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{expected ::mebp::train::PortKind to be one of: flow, parameter, gradient, state, batch, result, remote}}
// expected-error @below {{failed to parse Train_PortAttr parameter 'kind' which is to be a `::mebp::train::PortKind`}}
exec.program @p inputs [#train.port<bananas, "x">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has the input #train.port<gradient, "p0">, which goes the other way}}
exec.program @p inputs [#train.port<gradient, "p0">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has the output #train.port<batch, "labels">, which goes the other way}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<batch, "labels">] {
^bb0(%x: tensor<4x8xf32>):
  exec.return %x : tensor<4x8xf32>
}
