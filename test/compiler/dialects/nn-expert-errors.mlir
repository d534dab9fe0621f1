// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.route' op has score 'tanh'; known are softmax, sigmoid, softmax_of_chosen and softmax_of_near}}
  nn.route(%x) {score = "tanh"} : (tensor<?x?x4xf32, #nn.tokens>) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.route' op has a threshold of -5.000000e-01; a number from 0 on is needed}}
  nn.route(%x) {score = "softmax_of_near", threshold = -0.5 : f32} : (tensor<?x?x4xf32, #nn.tokens>) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x4xf32, #nn.tokens>) {
  // expected-error @below {{'nn.route' op chooses 5 experts of 4}}
  nn.route(%x) {score = "softmax"} : (tensor<?x?x4xf32, #nn.tokens>) -> (tensor<?x?x5xf32, #nn.tokens>, tensor<?x?x5xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x6xf32, #nn.tokens>) {
  // expected-error @below {{'nn.route' op has 4 groups of 6 experts, 1 of them chosen by their best 1, which cannot be}}
  nn.route(%x) {score = "softmax", groups = 4 : i64, top_groups = 1 : i64} : (tensor<?x?x6xf32, #nn.tokens>) -> (tensor<?x?x2xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x6xf32, #nn.tokens>) {
  // expected-error @below {{'nn.route' op chooses 3 experts of 1 groups, which have 2}}
  nn.route(%x) {score = "softmax", groups = 3 : i64, top_groups = 1 : i64} : (tensor<?x?x6xf32, #nn.tokens>) -> (tensor<?x?x3xf32, #nn.tokens>, tensor<?x?x3xf32, #nn.tokens>)
  return
}

// -----

func.func @f(%x: tensor<?x?x5xf32, #nn.tokens>, %w: tensor<12x4xf32>, %ids: tensor<?x?x2xf32, #nn.tokens>) {
  // expected-error @below {{'nn.expert_linear' op 'x' has 5 features, which are not the 4 of the weight}}
  nn.expert_linear(%x, %w, %ids) : (tensor<?x?x5xf32, #nn.tokens>, tensor<12x4xf32>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x6xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x4xf32, #nn.tokens>, %w: tensor<12x4xf32>, %ids: tensor<?x?x2xf32, #nn.tokens>) {
  // expected-error @below {{'nn.expert_linear' op has 2 slots, which do not divide the 7 features of 'y'}}
  nn.expert_linear(%x, %w, %ids) : (tensor<?x?x4xf32, #nn.tokens>, tensor<12x4xf32>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x7xf32, #nn.tokens>
  return
}

// -----

func.func @f(%dy: tensor<?x?x10xf32, #nn.tokens>, %w: tensor<12x4xf32>, %ids: tensor<?x?x2xf32, #nn.tokens>) {
  // expected-error @below {{'nn.expert_linear_input_gradient' op has 5 features of 'dy' for each slot, which do not divide the 12 rows of its weight}}
  nn.expert_linear_input_gradient(%dy, %w, %ids) : (tensor<?x?x10xf32, #nn.tokens>, tensor<12x4xf32>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

func.func @f(%y: tensor<?x?x9xf32, #nn.tokens>, %weights: tensor<?x?x2xf32, #nn.tokens>) {
  // expected-error @below {{'nn.expert_sum' op sums 2 slots of 4 features, but 'y' has 9}}
  nn.expert_sum(%y, %weights) : (tensor<?x?x9xf32, #nn.tokens>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x6xf32, #nn.tokens>, %w: tensor<5x8xf32>, %ids: tensor<?x?x2xf32, #nn.tokens>) {
  // expected-error @below {{'nn.expert_linear' op 'x' has 6 features for 2 slots, which do not divide the 8 columns of the weight}}
  nn.expert_linear(%x, %w, %ids) : (tensor<?x?x6xf32, #nn.tokens>, tensor<5x8xf32>, tensor<?x?x2xf32, #nn.tokens>) -> tensor<?x?x10xf32, #nn.tokens>
  return
}

// -----

func.func @f(%x: tensor<?x?x4xf32, #nn.tokens>, %w: tensor<12x4xf32>, %ids: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<4xf32>) {
  // expected-error @below {{'nn.expert_linear' op has a bias of 4 elements where its experts give 12}}
  nn.expert_linear(%x, %w, %ids bias %b) : (tensor<?x?x4xf32, #nn.tokens>, tensor<12x4xf32>, tensor<?x?x2xf32, #nn.tokens>, tensor<4xf32>) -> tensor<?x?x8xf32, #nn.tokens>
  return
}

// -----

// With the experts in columns.
func.func @f(%x: tensor<?x?x4xf32, #nn.tokens>, %w: tensor<5x6xf32>, %ids: tensor<?x?x2xf32, #nn.tokens>, %b: tensor<5xf32>) {
  // expected-error @below {{'nn.expert_linear' op has a bias of 5 elements where its experts give 15}}
  nn.expert_linear(%x, %w, %ids bias %b) : (tensor<?x?x4xf32, #nn.tokens>, tensor<5x6xf32>, tensor<?x?x2xf32, #nn.tokens>, tensor<5xf32>) -> tensor<?x?x10xf32, #nn.tokens>
  return
}
