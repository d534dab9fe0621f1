// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-place-values --verify-diagnostics

// What must share memory, but cannot, is never placed wrongly: the verifier refuses the program.

// Two carried values that begin as one.
// expected-error @below {{'exec.program' op places value 3 over value 2 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  %init = train.empty : tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  // expected-note @below {{value 3 is defined here}}
  %0:2 = train.loop sequence 2 trip %t (%a = %init, %b = %init) : tensor<4x8xf32>, tensor<4x8xf32> {
    train.yield %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
  }
  exec.return
}

// -----

// Two carried values that change places.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %i = train.empty : tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %j = train.empty : tensor<4x8xf32>
  %0:2 = train.loop sequence 2 trip %t (%a = %i, %b = %j) : tensor<4x8xf32>, tensor<4x8xf32> {
    train.yield %b, %a : tensor<4x8xf32>, tensor<4x8xf32>
  }
  exec.return
}

// -----

// An accumulator that is read after it was added to.
// expected-error @below {{'exec.program' op places value 2 over value 1 while both are alive}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-note @below {{value 1 is defined here}}
  %zero = exec.kernel "fill"() slots [] ties [-1] reuses [-1] {value = 0.0 : f32} : () -> tensor<4x8xf32>
  // expected-note @below {{value 2 is defined here}}
  %sum = exec.kernel "linear_weight_gradient"(%x, %x, %zero) slots [0, 1, 2] ties [2] reuses [-1] {}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %late = exec.kernel "silu"(%zero) slots [0] ties [-1] reuses [-1] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

// An input cannot be added to: it is a checkpoint, or a mapped weight.
// expected-error @below {{'exec.program' op lets value 1 share the memory of input 0, which is not the program's to write}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  %sum = exec.kernel "linear_weight_gradient"(%x, %x, %x) slots [0, 1, 2] ties [2] reuses [-1] {}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}
