// SPDX-License-Identifier: Apache-2.0
//
// Activations, each with its pullback, and gated units.
#ifndef MEBP_NN_ACTIVATION_OPS
#define MEBP_NN_ACTIVATION_OPS

include "dialects/nn/NNBase.td"

//===- Activations -----------------------------------------------------------------------------------------------===//

// NAMEOp, and NAMEGradientOp for its pullback, with the same attributes.
multiclass NN_Activation<string mnemonic, string what, string equation, string pullback, dag attributes = (ins),
                         bit verifies = 0> {
  def Op : NN_KernelOp<mnemonic, [Differentiable, SameOperandsAndResultShape]> {
    let summary = what;
    let description = equation;
    let arguments = !con((ins Tokens:$x), attributes);
    let results = (outs Tokens:$result);
    let hasVerifier = verifies;
    let extraClassDefinition = [{
      ::llvm::LogicalResult $cppClass::buildGradient(::mlir::OpBuilder &builder, ::llvm::ArrayRef<::mlir::Value> cotangents,
                                                     const ::llvm::SmallBitVector &,
                                                     ::llvm::MutableArrayRef<::mlir::Value> gradients) {
        gradients[0] = buildActivationGradient(builder, *this, cotangents[0]);
        return ::llvm::success();
      }
    }];
  }
  def GradientOp : NN_KernelOp<mnemonic # "_gradient", [SameOperandsAndResultShape]> {
    let summary = "The cotangent of " # mnemonic # "'s input";
    let description = pullback;
    let arguments = !con((ins Tokens:$x, Tokens:$dy), attributes);
    let results = (outs Tokens:$result);
    let hasVerifier = verifies;
  }
}

defm NN_Silu : NN_Activation<"silu", "Sigmoid linear unit", "y = x σ(x)", "dx = dy σ(x) (1 + x (1 − σ(x)))">;
defm NN_Relu : NN_Activation<"relu", "Rectified linear unit", "y = max(x, 0)", "dx = dy where x > 0, else 0">;
defm NN_Gelu : NN_Activation<"gelu", "Gaussian error linear unit",
    "y = x Φ(x); approximation 1: x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))",
    "dx = dy (Φ(x) + x φ(x)), or that of the tanh form", (ins DefaultValuedAttr<I64Attr, "0">:$approximation), 1>;
defm NN_Softcap : NN_Activation<"softcap", "Keeps numbers between two bounds", "y = c tanh(x / c) with c = softcap.",
    "dx = dy (1 − tanh(x / c)²) with c = softcap.", (ins F32Attr:$softcap), 1>;
defm NN_Clamp : NN_Activation<"clamp", "Keeps numbers within bounds",
    "y = min(max(x, lower), upper). A bound that is absent does not bound.",
    "dx = dy where lower ≤ x ≤ upper, else 0.",
    (ins OptionalAttr<F32Attr>:$lower, OptionalAttr<F32Attr>:$upper), 1>;

def NN_XieluOp : NN_KernelOp<"xielu", [Differentiable]> {
  let summary = "Integrated exponential linear unit (xIELU)";
  let description = [{
    y = beta x + softplus(alpha_p) x² where x > 0, else beta x + (beta + softplus(alpha_n)) (exp(min(x, epsilon)) − 1 − x).
    alpha_p, alpha_n [1], epsilon at most 0. There is no rule for the alphas.
  }];
  let arguments = (ins Tokens:$x, Vector:$alpha_p, Vector:$alpha_n, F32Attr:$beta, F32Attr:$epsilon);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}
def NN_XieluGradientOp : NN_KernelOp<"xielu_gradient"> {
  let summary = "The cotangent of xielu's input";
  let description = [{
    dx = dy (beta + 2 softplus(alpha_p) x) where x > 0, else dy (beta + (beta + softplus(alpha_n)) (e − 1)) with e = exp(x)
    where x < epsilon, else 0.
  }];
  let arguments = (ins Tokens:$x, Tokens:$dy, Vector:$alpha_p, Vector:$alpha_n, F32Attr:$beta, F32Attr:$epsilon);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_GatedOp : NN_KernelOp<"gated", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "A gated unit: SwiGLU, GeGLU";
  let description = "y = f(gate) · up, with f one of `format/activations.h`.";
  let arguments = (ins Tokens:$gate, Tokens:$up, StrAttr:$activation);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}
def NN_GatedGradientOp : NN_KernelOp<"gated_gradient", [SameOperandsAndResultShape]> {
  let summary = "The cotangents of a gated unit's inputs";
  let description = "dgate = dy · up · f′(gate), dup = dy · f(gate).";
  let arguments = (ins Tokens:$gate, Tokens:$up, Tokens:$dy, StrAttr:$activation);
  let results = (outs Tokens:$dgate, Tokens:$dup);
  let hasVerifier = 1;
}

#endif
