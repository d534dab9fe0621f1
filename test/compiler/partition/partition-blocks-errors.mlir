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

// What flows from block to block has one width.
nn.parameter @table : tensor<50x4xf32>
nn.parameter @up : tensor<6x4xf32>
nn.parameter @layer : tensor<6x6xf32>
nn.parameter @head : tensor<50x6xf32>
func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %up = nn.read_parameter @up : tensor<6x4xf32>
  %layer = nn.read_parameter @layer : tensor<6x6xf32>
  %head = nn.read_parameter @head : tensor<50x6xf32>
  %e = nn.embedding(%ids, %table) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  // expected-error @below {{gives 6 features a token where 4 came in; mebp trains only models that are as wide from the embedding to the head}}
  %0 = nn.linear(%e, %up) : (tensor<?x?x4xf32, #nn.tokens>, tensor<6x4xf32>) -> tensor<?x?x6xf32, #nn.tokens>
  %1 = nn.linear(%0, %layer) : (tensor<?x?x6xf32, #nn.tokens>, tensor<6x6xf32>) -> tensor<?x?x6xf32, #nn.tokens>
  %2 = nn.linear(%1, %layer) : (tensor<?x?x6xf32, #nn.tokens>, tensor<6x6xf32>) -> tensor<?x?x6xf32, #nn.tokens>
  %y = nn.linear(%2, %head) : (tensor<?x?x6xf32, #nn.tokens>, tensor<50x6xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  return %y : tensor<?x?x50xf32, #nn.tokens>
}

// -----

nn.parameter @table : tensor<50x4xf32>
func.func @main(%ids: tensor<?x?x1xi32, #nn.tokens>) -> tensor<?x?x50xf32, #nn.tokens> {
  %table = nn.read_parameter @table : tensor<50x4xf32>
  %e = nn.embedding(%ids, %table) : (tensor<?x?x1xi32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x4xf32, #nn.tokens>
  %y = nn.linear(%e, %table) : (tensor<?x?x4xf32, #nn.tokens>, tensor<50x4xf32>) -> tensor<?x?x50xf32, #nn.tokens>
  // expected-error @below {{the logits must come from a linear layer, with or without a softcap}}
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
