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
