// SPDX-License-Identifier: Apache-2.0
// RUN: mebp-opt %s --split-input-file --mebp-partition-blocks --verify-diagnostics

// expected-error @below {{needs a function @main of the token ids that returns the logits}}
module {
  func.func @forward(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x1xi32, #nn.tokens> {
    return %ids : tensor<?x?x1xi32, #nn.tokens>
  }
}

// -----

// expected-error @below {{needs a function @main of the token ids that returns the logits}}
module {
  func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>, %mask: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x1xi32, #nn.tokens> {
    return %ids : tensor<?x?x1xi32, #nn.tokens>
  }
}

// -----

nn.parameter @table : tensor<50x4xf32>
// expected-error @below {{has no narrow cuts: no place where a single activation passes from one layer to the next}}
func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %e = nn.embedding(%ids, %table) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  %y = nn.linear(%e, %table) : (tensor<?x?x4xf32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}

// -----

nn.parameter @table : tensor<50x4xf32>
nn.parameter @bias : tensor<50xf32>
func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %bias = nn.read_parameter @bias : tensor<50xf32>
  %e = nn.embedding(%ids, %table) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  %a = nn.silu(%e) : (tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  // expected-error @below {{the logits must come from a linear layer without a bias}}
  %y = nn.linear(%a, %table bias %bias) : (tensor<?x?x4xf32, #nn.tokens>, tensor<50x4xf32>, tensor<50xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}

// -----

nn.parameter @table : tensor<50x4xf32>
func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %e = nn.embedding(%ids, %table) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  %y = nn.linear(%e, %table) : (tensor<?x?x4xf32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  // expected-error @below {{the logits must come from a linear layer without a bias}}
  %z = nn.scale(%y) {alpha = 2.0 : f32} : (tensor<?x?x50xf32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens>
  return %z : tensor<?x?x50xf32, #nn.tokens>
}

// -----

nn.parameter @table : tensor<50x4xf32>
nn.parameter @w : tensor<4x1xf32>
// The first linear layer reads the token ids themselves.
// expected-error @below {{has no embed: expected an embedding, then layers of linear layers and attention, then the head's linear layer}}
func.func @main(%ids: tensor<?x?x1xf32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %w = nn.read_parameter @w : tensor<4x1xf32>
  %a = nn.linear(%ids, %w) : (tensor<?x?x1xf32, #nn.tokens>, tensor<4x1xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  %b = nn.silu(%a) : (tensor<?x?x4xf32, #nn.tokens>) -> tensor<?x?x4xf32, #nn.tokens>
  %y = nn.linear(%b, %table) : (tensor<?x?x4xf32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}

// -----

nn.parameter @table : tensor<50x4xf32>
nn.parameter @w : tensor<4x4xf32>
// expected-error @below {{parameter 'head' has the name of a block; rename it}}
nn.parameter @head : tensor<50x4xf32>
func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %w = nn.read_parameter @w : tensor<4x4xf32>
  %head = nn.read_parameter @head : tensor<50x4xf32>
  %e = nn.embedding(%ids, %table) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  %a = nn.linear(%e, %w) : (tensor<?x?x4xf32, #nn.tokens>, tensor<4x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  %y = nn.linear(%a, %head) : (tensor<?x?x4xf32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}
