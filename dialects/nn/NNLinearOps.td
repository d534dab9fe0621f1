// SPDX-License-Identifier: Apache-2.0
//
// Products with a weight, and the gradients of weight and bias.
#ifndef MEBP_NN_LINEAR_OPS
#define MEBP_NN_LINEAR_OPS

include "dialects/nn/NNBase.td"

//===- Products with a weight ------------------------------------------------------------------------------------===//

def NN_LinearOp : NN_KernelOp<"linear", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "A linear layer, with what is added to it";
  let description = [{
    y = alpha (x wᵀ + low_alpha low low_weightᵀ) + bias + addend.
    x [B,T,K], w [M,K], low [B,T,R], low_weight [M,R], bias [M], addend and y [B,T,M].
    LoRA is two of them: y = linear(x, w low linear(x, A), B bias addend) {low_alpha}. Until mebp-fuse-addends puts them
    together, it is three: y = linear(x, w bias addend linear(linear(x, A), B) {alpha}).
    dx = alpha dy w, dw = alpha dyᵀ x, dbias = Σ dy, daddend = dy; there is no rule where `low` is present.
  }];
  let arguments = (ins Tokens:$x, Matrix:$weight, Optional<Vector>:$bias, Optional<Tokens>:$addend,
                       Optional<Tokens>:$low, Optional<Matrix>:$low_weight,
                       DefaultValuedAttr<F32Attr, "1.0f">:$alpha, OptionalAttr<F32Attr>:$low_alpha);
  let results = (outs Tokens:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$x, "::mlir::Value":$weight,
                                 "::mlir::Value":$bias, "::mlir::Value":$addend,
                                 CArg<"float", "1.0f">:$alpha)>];
  let assemblyFormat = [{
    `(` $x `,` $weight (`bias` $bias^)? (`addend` $addend^)? (`low` $low^ `,` $low_weight)? `)` attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_LinearInputGradientOp : NN_KernelOp<"linear_input_gradient", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "The cotangent of a linear layer's input";
  let description = [{
    dx = alpha (dy w + low_alpha low low_weight) + addend.
    dy [B,T,M], w [M,K], low [B,T,R], low_weight [R,K], addend and dx [B,T,K]. A kernel may round dy to bf16 where it is
    narrow: its exact value serves something else. It is also x w, as where x says which rows of w a token has: with
    the cotangent g of dx, ddy = alpha g wᵀ, dw = alpha dyᵀ g, daddend = g; there is no rule where `low` is present.
  }];
  let arguments = (ins Tokens:$dy, Matrix:$weight, Optional<Tokens>:$addend, Optional<Tokens>:$low,
                       Optional<Matrix>:$low_weight, DefaultValuedAttr<F32Attr, "1.0f">:$alpha,
                       OptionalAttr<F32Attr>:$low_alpha, UnitAttr:$narrow);
  let results = (outs Tokens:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$dy, "::mlir::Value":$weight,
                                 "::mlir::Value":$addend,
                                 CArg<"float", "1.0f">:$alpha)>];
  let assemblyFormat = [{
    `(` $dy `,` $weight (`addend` $addend^)? (`low` $low^ `,` $low_weight)? `)` attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_LinearWeightGradientOp : NN_KernelOp<"linear_weight_gradient"> {
  let summary = "The gradient of a linear layer's weight";
  let description = "dw = alpha dyᵀ x + accumulator, summed over batch and sequence. dy [B,T,M], x [B,T,K], dw [M,K].";
  let arguments = (ins Tokens:$dy, Tokens:$x, Optional<Matrix>:$accumulator, DefaultValuedAttr<F32Attr, "1.0f">:$alpha);
  let results = (outs Matrix:$result);
}

def NN_BiasGradientOp : NN_KernelOp<"bias_gradient"> {
  let summary = "The gradient of what is added to every row";
  let description = "db = accumulator + dy summed over batch and sequence. dy [B,T,M], db [M].";
  let arguments = (ins Tokens:$dy, Optional<Vector>:$accumulator);
  let results = (outs Vector:$result);
}

#endif
