// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables: of tokens and of positions.
#ifndef MEBP_NN_EMBEDDING_OPS
#define MEBP_NN_EMBEDDING_OPS

include "dialects/nn/NNBase.td"

//===- Embeddings ------------------------------------------------------------------------------------------------===//

def NN_EmbeddingOp : NN_KernelOp<"embedding", [Differentiable]> {
  let summary = "Rows of a table, or a part of each";
  let description = [{
    y[b,t,:] = w[ids[b,t],:]; of the part p = part[b,t], y[b,t,:] = w[ids[b,t], p D to (p + 1) D].
    ids [B,T,1], w [V,C], y [B,T,D]; part [B,T,1], whole numbers as f32 holds them. Without parts C = D, else C is so
    many times D as there are parts. Of a table in parts there is no gradient.
  }];
  let arguments = (ins TokenIds:$ids, Matrix:$weight, Optional<Tokens>:$part);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_RepeatRowOp : NN_KernelOp<"repeat_row"> {
  let summary = "One row of a table for all tokens";
  let description = "y[b,t,:] = w[offset,:]. w [R,D], y [B,T,D]: the type of a token where all are of one.";
  let arguments = (ins Matrix:$weight, DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_PositionEmbeddingOp : NN_KernelOp<"position_embedding", [Differentiable]> {
  let summary = "Learned positions";
  let description = [{
    y[b,t,:] = w[offset + t − starts[b,t],:]. w [P,D], y [B,T,D]; a sequence is at most P − offset long.
  }];
  let arguments = (ins Matrix:$weight, Optional<Starts>:$starts, OptionalAttr<I64Attr>:$offset);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_EmbeddingWeightGradientOp : NN_KernelOp<"embedding_weight_gradient"> {
  let summary = "The gradient of a table";
  let description = [{
    dw[v,:] = accumulator[v,:] + the sum of dy[b,t,:] over all b, t with ids[b,t] = v. ids [B,T,1], dy [B,T,D],
    dw [V,D].
  }];
  let arguments = (ins TokenIds:$ids, Tokens:$dy, Optional<Matrix>:$accumulator);
  let results = (outs Matrix:$result);
}

def NN_PositionEmbeddingWeightGradientOp
    : NN_KernelOp<"position_embedding_weight_gradient", [AttrSizedOperandSegments]> {
  let summary = "The gradient of learned positions";
  let description = [{
    dw[p,:] = accumulator[p,:] + the sum of dy[b,t,:] over all b, t with offset + t − starts[b,t] = p.
  }];
  let arguments = (ins Tokens:$dy, Optional<Matrix>:$accumulator, Optional<Starts>:$starts,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Matrix:$result);
}

#endif
