// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics

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

// expected-error @below {{'exec.program' op has a value whose encoding is no #exec.extent: 'tensor<4x8xf32, "dense">'}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32, "dense">):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has a value of a trip outside of the loop: 'tensor<4x8xf32, #exec.extent<chunk, whole>>'}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32, #exec.extent<chunk, whole>>):
  exec.return
}

// -----

// expected-error @below {{'exec.program' op has a value whose columns are tokens: 'tensor<4x8xf32, #exec.extent<whole, tokens>>'}}
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32, #exec.extent<whole, tokens>>):
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  train.loop sequence 2 trip %t () {
  // expected-error @below {{'train.loop' op is in another loop of its sort, whose trips it could not tell from its own}}
    train.loop token_rows 1 trip %u () {
    }
  }
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32, #exec.extent<tokens, whole>>):
  train.loop sequence 2 trip %t () {
  // expected-error @below {{'train.slice' op has 'tensor<2x8xf32>', which is not what a trip covers of 'tensor<4x8xf32, #exec.extent<tokens, whole>>'}}
    %rows = train.slice %x[%t] : tensor<4x8xf32, #exec.extent<tokens, whole>> -> tensor<2x8xf32>
  }
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'train.empty' op is no op of a program}}
  %0 = train.empty : tensor<4x8xf32>
  exec.return
}

// -----

// A name that the table does not have, in this text and in the generic one.
exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{"sillu" is no kernel (format/kernels.h)}}
  %0 = exec.kernel "sillu"(x = %x) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op calls "sillu", which is no kernel (format/kernels.h)}}
  %0 = "exec.kernel"(%x) <{kernel = "sillu", kernel_attributes = {}, slots = array<i32: 0>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{"silu" has no operand 'gate'}}
  %0 = exec.kernel "silu"(gate = %x) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op has no operand 'b'}}
  %0 = exec.kernel "add"(a = %x) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op needs a slot for each operand, in the order that the kernel has them}}
  %0 = exec.kernel "add"(b = %x, a = %x) {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op needs a slot for each operand, in the order that the kernel has them}}
  %0 = "exec.kernel"(%x) <{kernel = "silu", kernel_attributes = {}, slots = array<i32: 1>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op has 2 results; the kernel gives 1}}
  %0:2 = exec.kernel "silu"(x = %x) {} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op has 0 results; the kernel gives 1}}
  exec.kernel "silu"(x = %x) {} : (tensor<4x8xf32>) -> ()
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op 'y' has size 9 (whole) where 8 (whole) is needed}}
  %0 = exec.kernel "silu"(x = %x) {} : (tensor<4x8xf32>) -> tensor<4x9xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">, #train.port<parameter, "w">] outputs [] {
^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  // expected-error @below {{'exec.kernel' op 'y' has size 5 (whole) where 4 (whole) is needed}}
  %0 = exec.kernel "linear"(x = %x, w = %w) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32, #exec.extent<tokens, whole>>):
  // expected-error @below {{'exec.kernel' op 'y' has size 4 (whole) where 4 (tokens) is needed}}
  %0 = exec.kernel "silu"(x = %x) {} : (tensor<4x8xf32, #exec.extent<tokens, whole>>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op 'dw' cannot be of 'bf16'}}
  %0 = exec.kernel "linear_weight_gradient"(dy = %x, x = %x) {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xbf16>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op 'ids' cannot be of 'f32'}}
  %0 = exec.kernel "embedding"(ids = %x, w = %x) {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op needs rows of tokens, whose positions it asks for}}
  %0 = exec.kernel "rope"(x = %x) {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op 'k' has to be of all tokens}}
  %0:2 = exec.kernel "attention"(q = %x, k = %x, v = %x) {} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>)
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op has parts that do not make up the whole}}
  %0 = exec.kernel "concat"(%x, %x) {} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x15xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">, #train.port<parameter, "w">] outputs [] {
^bb0(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>):
  // expected-error @below {{'exec.kernel' op has a part that does not fit the whole}}
  %0 = exec.kernel "concat"(%x, %w) {} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x16xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op needs one whole and its parts}}
  %0:2 = exec.kernel "concat"(%x) {} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op has 0 places for 1 results}}
  %0 = exec.kernel "silu"(x = %x) at [] {} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
}

// -----

exec.program @p inputs [#train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>):
  // expected-error @below {{'exec.kernel' op attribute 'places' failed to satisfy constraint: a place for each result}}
  %0 = "exec.kernel"(%x) <{kernel = "silu", kernel_attributes = {}, slots = array<i32: 0>, places = [1]}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return
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

// -----

// expected-error @below {{'exec.program' op has the input #train.port<flow, "hidden"> twice}}
exec.program @p inputs [#train.port<flow, "hidden">, #train.port<flow, "hidden">] outputs [] {
^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
  exec.return
}
