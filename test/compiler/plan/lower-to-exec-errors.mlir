// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-lower-to-exec="batch=2 sequence=11" --verify-diagnostics

func.func private @f(%w: tensor<10x4xf32> {train.port = #train.port<parameter, "p0">}) {
  // expected-error @below {{--seq-len 11 is beyond the 10 positions that the model has learned; give at most 10}}
  %0 = nn.position_embedding(%w) : (tensor<10x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

nn.parameter @w : tensor<4xf32>
func.func private @f() {
  // expected-error @below {{'nn.read_parameter' is not a kernel: it should have been rewritten}}
  %0 = nn.read_parameter @w : tensor<4xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}, %w: tensor<50x4xf32> {train.port = #train.port<parameter, "w">},
    %labels: tensor<?x?x1xi32, #nn.tokens> {train.port = #train.port<batch, "labels">}) {
  // expected-error @below {{'nn.log_probability' is not a kernel: it should have been rewritten}}
  %0:2 = nn.log_probability(%x, %w, %labels) : (tensor<?x?x4xf32, #nn.tokens>, tensor<50x4xf32>, tensor<?x?x1xi32, #nn.tokens>)
      -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func private @f() {
  // expected-error @below {{the size of result 0 is not known: 'tensor<?x?x?xf32, #nn.tokens>'}}
  %0 = nn.fill() {value = 1.0 : f32} : () -> tensor<?x?x?xf32, #nn.tokens>
  return
}

// -----

// expected-error @below {{has no body to lower}}
func.func private @f(%x: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">})

// -----

// expected-error @below {{argument 0 has no train.port}}
func.func private @f(%x: tensor<?x?x4xf32, #nn.tokens>) {
  return
}

// -----

// expected-error @below {{result 0 has no train.port}}
func.func private @f(%x: tensor<?x?x4xf32, #nn.tokens> {train.port = #train.port<flow, "hidden">}) -> tensor<?x?x4xf32, #nn.tokens> {
  return %x : tensor<?x?x4xf32, #nn.tokens>
}

// -----

// expected-error @below {{has a value that is neither tokens nor a matrix nor a vector: 'tensor<f32>'}}
func.func private @f(%x: tensor<f32> {train.port = #train.port<batch, "coefficients">}) {
  return
}

// -----

func.func private @f() {
  // expected-error @below {{has a value that is neither tokens nor a matrix nor a vector: 'tensor<2x3x4xf32>'}}
  %0 = train.empty : tensor<2x3x4xf32>
  return
}
