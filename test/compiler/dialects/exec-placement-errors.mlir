// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'exec.program' op has places for some of its values alone}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %a) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op lies at byte 32, which is no multiple of 64}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 32>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %a) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op lies where no memory of the program's to write is}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<output 1>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op lies where no memory of the program's to write is}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<output -1>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op lies where no memory of the program's to write is}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<input 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op lies in output 0, which is of another type}}
  %a = exec.kernel "concat"(%x, %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op returns as output 0 what lies elsewhere}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %x : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op returns as output 0 what lies elsewhere}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %y = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// Both are read by the same kernel.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{it is defined here}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{it is overwritten here}}
  %b = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{'exec.kernel' op reads what has been overwritten}}
  %y = exec.kernel "add"(a = %a, b = %b) at [#exec.place<output 0>] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// They overlap in part only.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{it is defined here}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{it is overwritten here}}
  %b = exec.kernel "silu"(x = %x) at [#exec.place<arena 64>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{'exec.kernel' op reads what has been overwritten}}
  %y = exec.kernel "add"(a = %a, b = %b) at [#exec.place<output 0>] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// The kernel does not work in place.
exec.program @p inputs [#train.port<flow, "hidden">, #train.port<parameter, "w">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{'exec.kernel' op writes result 0 over an operand that it reads}}
  %b = exec.kernel "linear"(x = %a, w = %w) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %b) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// It does, but reads its operand in two places.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{'exec.kernel' op writes result 0 over an operand that it reads}}
  %b = exec.kernel "add"(a = %a, b = %a) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %b) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// The kernel works in place, but its operand is read again.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{it is defined here}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{it is overwritten here}}
  %b = exec.kernel "silu"(x = %a) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{'exec.kernel' op reads what has been overwritten}}
  %y = exec.kernel "add"(a = %a, b = %b) at [#exec.place<output 0>] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// In place means at the same offset.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{'exec.kernel' op writes result 0 over an operand that it reads}}
  %b = exec.kernel "silu"(x = %a) at [#exec.place<arena 64>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = exec.kernel "silu"(x = %b) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op writes result 1 over another}}
  %a:2 = exec.kernel "gated_gradient"(gate = %x, up = %x, dy = %x) at [#exec.place<arena 0>, #exec.place<arena 64>] {}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %y = exec.kernel "add"(a = %a#0, b = %a#1) at [#exec.place<output 0>] {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// Every trip reads %a again: what comes before the loop lives to its end.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{it is defined here}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  train.loop sequence 2 trip %t () {
    // expected-note @below {{it is overwritten here}}
    // expected-error @below {{'exec.kernel' op reads what has been overwritten}}
    %b = exec.kernel "silu"(x = %a) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  }
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// The reader of a slice reads what it looks into.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<tokens, whole>>):
  %a = exec.kernel "silu"(x = %x) at [#exec.place<arena 0>] {} : (tensor<4x8xf32, #exec.extent<tokens, whole>>) -> tensor<4x8xf32, #exec.extent<tokens, whole>>
  train.loop sequence 2 trip %t () {
    %rows = train.slice %a[%t] : tensor<4x8xf32, #exec.extent<tokens, whole>> -> tensor<2x8xf32, #exec.extent<chunk, whole>>
    // expected-error @below {{'exec.kernel' op writes result 0 over an operand that it reads}}
    %b = exec.kernel "silu"(x = %rows) at [#exec.place<arena 0>] {} : (tensor<2x8xf32, #exec.extent<chunk, whole>>) -> tensor<2x8xf32, #exec.extent<chunk, whole>>
  }
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32, #exec.extent<tokens, whole>>) -> tensor<4x8xf32, #exec.extent<tokens, whole>>
  exec.return %y : tensor<4x8xf32, #exec.extent<tokens, whole>>
}

// -----

// The argument is read after the value that the next trip finds in its place.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %init = exec.empty at <output 0> : tensor<4x8xf32>
  // expected-note @below {{it is defined here}}
  %y = train.loop sequence 2 trip %t (%c = %init) : tensor<4x8xf32> {
    // expected-note @below {{it is overwritten here}}
    %next = exec.kernel "silu"(x = %c) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // expected-error @below {{'exec.kernel' op reads what has been overwritten}}
    %late = exec.kernel "silu"(x = %c) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    train.yield %next : tensor<4x8xf32>
  }
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %init = exec.empty at <output 0> : tensor<4x8xf32>
  %y = train.loop sequence 2 trip %t (%c = %init) : tensor<4x8xf32> {
    %next = exec.kernel "silu"(x = %c) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // expected-error @below {{'train.yield' op carries a value that lies elsewhere in the next trip}}
    train.yield %next : tensor<4x8xf32>
  }
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'train.loop' op carries an input, which is not the program's to write}}
  %0 = train.loop sequence 2 trip %t (%c = %x) : tensor<4x8xf32> {
    train.yield %c : tensor<4x8xf32>
  }
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<tokens, whole>>):
  %i = exec.empty at <arena 0> : tensor<4x8xf32, #exec.extent<tokens, whole>>
  train.loop sequence 2 trip %t () {
    %rows = train.slice %i[%t] : tensor<4x8xf32, #exec.extent<tokens, whole>> -> tensor<2x8xf32, #exec.extent<chunk, whole>>
    // expected-error @below {{'train.update' op writes over the rows that it reads}}
    %0 = train.update %rows into %i[%t] : tensor<2x8xf32, #exec.extent<chunk, whole>> into tensor<4x8xf32, #exec.extent<tokens, whole>>
  }
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32, #exec.extent<tokens, whole>>) -> tensor<4x8xf32, #exec.extent<tokens, whole>>
  exec.return %y : tensor<4x8xf32, #exec.extent<tokens, whole>>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32, #exec.extent<tokens, whole>>):
  train.loop sequence 2 trip %t () {
    %rows = train.slice %x[%t] : tensor<4x8xf32, #exec.extent<tokens, whole>> -> tensor<2x8xf32, #exec.extent<chunk, whole>>
    %0 = exec.kernel "silu"(x = %rows) at [#exec.place<arena 0>] {} : (tensor<2x8xf32, #exec.extent<chunk, whole>>) -> tensor<2x8xf32, #exec.extent<chunk, whole>>
    // expected-error @below {{'train.update' op updates what is not the program's to write}}
    %1 = train.update %0 into %x[%t] : tensor<2x8xf32, #exec.extent<chunk, whole>> into tensor<4x8xf32, #exec.extent<tokens, whole>>
  }
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32, #exec.extent<tokens, whole>>) -> tensor<4x8xf32, #exec.extent<tokens, whole>>
  exec.return %y : tensor<4x8xf32, #exec.extent<tokens, whole>>
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  %zero = exec.kernel "fill"() at [#exec.place<arena 0>] {value = 0.0 : f32} : () -> tensor<8x8xf32>
  // expected-error @below {{'exec.kernel' op does not add result 0 to its operand in place}}
  %sum = exec.kernel "linear_weight_gradient"(dy = %x, x = %x, accumulator = %zero) at [#exec.place<arena 256>] {}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// An output's memory is written twice.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [#train.port<flow, "hidden">] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{it is defined here}}
  %a = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-note @below {{it is overwritten here}}
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-error @below {{'exec.kernel' op reads what has been overwritten}}
  %late = exec.kernel "silu"(x = %a) at [#exec.place<arena 0>] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{'exec.program' op is in place, but reads what it would have overwritten}}
exec.program @p inputs [#train.port<flow, "hidden">, #train.port<parameter, "w">] outputs [#train.port<flow, "hidden">] in_place {
^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  %y = exec.kernel "linear"(x = %x, w = %w) at [#exec.place<output 0>] {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  exec.return %y : tensor<4x8xf32>
}

// -----

// A state is written in place, and what it held is then gone.
exec.program @p inputs [#train.port<flow, "hidden">, #train.port<state, "k">] outputs [#train.port<flow, "hidden">] {
// expected-note @below {{it is defined here}}
^bb0(%x: tensor<4x8xf32, #exec.extent<tokens, whole>>, %k: tensor<16x8xf32>):
  // expected-note @below {{it is overwritten here}}
  %kept = exec.kernel "append"(state = %k, rows = %x) at [#exec.place<input 1>] {capacity = 16 : i64} : (tensor<16x8xf32>, tensor<4x8xf32, #exec.extent<tokens, whole>>) -> tensor<16x8xf32>
  // expected-error @below {{'exec.kernel' op reads what has been overwritten}}
  %z = exec.kernel "silu"(x = %k) at [#exec.place<arena 0>] {} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %y = exec.kernel "silu"(x = %x) at [#exec.place<output 0>] {} : (tensor<4x8xf32, #exec.extent<tokens, whole>>) -> tensor<4x8xf32, #exec.extent<tokens, whole>>
  exec.return %y : tensor<4x8xf32, #exec.extent<tokens, whole>>
}
