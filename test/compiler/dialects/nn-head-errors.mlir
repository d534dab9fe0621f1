// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x9xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability' op 'x' has size 8 where 9 is needed}}
  %0:2 = nn.log_probability(%x, %w, %labels) : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x9xf32>, tensor<?x?x1xi32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability' op 'entropy' has size 8 where 1 is needed}}
  %0:2 = nn.log_probability(%x, %w, %labels) : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x9xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability_gradient' op 'x' has size 8 where 9 is needed}}
  %0:3 = nn.log_probability_gradient(%x, %w, %labels, %c)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x9xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability_gradient' op 'dx' has size 9 where 8 is needed}}
  %0:3 = nn.log_probability_gradient(%x, %w, %labels, %c)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x9xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability_gradient' op 'coefficients' has size 8 where 1 is needed}}
  %0:3 = nn.log_probability_gradient(%x, %w, %labels, %x)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%l: tensor<?x?x8xf32, #nn.tokens>, %labels: tensor<?x?x1xi32, #nn.tokens>, %s: tensor<?x?x1xf32, #nn.tokens>, %a: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability_tile' op has an accumulator as operand or as result only; give both or none}}
  %0:5 = nn.log_probability_tile(%l, %labels, %s, %s, %s, %s, %a)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> (tensor<?x?x8xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%labels: tensor<?x?x1xi32, #nn.tokens>, %s: tensor<?x?x1xf32, #nn.tokens>, %a: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability_from_tiles' op needs 'coefficients', 'accumulator', 'weight' and the result 'dx' together, or none of them}}
  %0:2 = nn.log_probability_from_tiles(%labels, %s, %s, %s, %s, %a) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 1, 0>}
      : (tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x4xf32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>) {
  // expected-error @below {{'nn.log_probability' op has one of 'low' and 'low_weight'; give both or none}}
  %0:2 = "nn.log_probability"(%x, %w, %labels, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>, %other: tensor<50x3xf32>) {
  // expected-error @below {{'nn.log_probability' op 'low_weight' has size 3 where 2 is needed}}
  %0:2 = nn.log_probability(%x, %w, %labels low %t, %other)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>, tensor<50x3xf32>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>, %other: tensor<49x2xf32>) {
  // expected-error @below {{'nn.log_probability_gradient' op 'low_weight' has 49 rows where 50 are needed}}
  %0:3 = nn.log_probability_gradient(%x, %w, %labels, %c low %t, %other)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>, tensor<49x2xf32>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x8xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>) {
  // expected-error @below {{'nn.log_probability_weight_gradient' op 'dweight' is 'tensor<50x9xf32>' where 'tensor<50x8xf32>' is needed}}
  %0 = nn.log_probability_weight_gradient(%x, %w, %labels, %c) : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>) -> tensor<50x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>) {
  // expected-error @below {{'nn.log_probability_weight_gradient' op 'coefficients' has size 2 where 1 is needed}}
  %0 = nn.log_probability_weight_gradient(%x, %w, %labels, %t) : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<50x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>) {
  // expected-error @below {{'nn.log_probability_low_gradient' op has no 'low', whose gradient it gives}}
  %0:2 = nn.log_probability_low_gradient(%x, %w, %labels, %c) : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<50x2xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>) {
  // expected-error @below {{'nn.log_probability_low_gradient' op 'dlow' has size 8 where 2 is needed}}
  %0:2 = nn.log_probability_low_gradient(%x, %w, %labels, %c low %t, %b)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>, tensor<50x2xf32>) -> (tensor<?x?x8xf32, #nn.tokens>, tensor<50x2xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>, %t: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<50x2xf32>) {
  // expected-error @below {{'nn.log_probability_low_gradient' op 'dlow_weight' is 'tensor<50x3xf32>' where 'tensor<50x2xf32>' is needed}}
  %0:2 = nn.log_probability_low_gradient(%x, %w, %labels, %c low %t, %b)
      : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>, tensor<50x2xf32>) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<50x3xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %b: tensor<40xf32>) {
  // expected-error @below {{'nn.log_probability' op 'bias' has size 40 where 50 is needed}}
  %0:2 = nn.log_probability(%x, %w, %labels bias %b) : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<40xf32>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability' op has a softcap of -2.000000e+00; a number above 0 is needed}}
  %0:2 = nn.log_probability(%x, %w, %labels) {softcap = -2.0 : f32} : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>) -> (tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%l: tensor<?x?x?xf32, #nn.tokens>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability_logits_gradient' op needs 'weighted' and 'entropy_coefficients' together, or none of them}}
  %0 = "nn.log_probability_logits_gradient"(%l, %labels, %c, %c, %c, %c, %c) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>}>
      : (tensor<?x?x?xf32, #nn.tokens>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>) -> tensor<?x?x?xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x8xf32, #nn.tokens>, %w: tensor<50x8xf32>, %labels: tensor<?x?x1xi32, #nn.tokens>, %c: tensor<?x?x1xf32, #nn.tokens>) {
  // expected-error @below {{'nn.log_probability_bias_gradient' op has no 'bias', whose gradient it gives}}
  %0 = nn.log_probability_bias_gradient(%x, %w, %labels, %c) : (tensor<?x?x8xf32, #nn.tokens>, tensor<50x8xf32>, tensor<?x?x1xi32, #nn.tokens>, tensor<?x?x1xf32, #nn.tokens>) -> tensor<50xf32>
  return
}
