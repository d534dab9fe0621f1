// SPDX-License-Identifier: Apache-2.0
//
// Activations, each with its pullback, and gated units. Included by NNOps.td.
#ifndef MEBP_NN_ACTIVATION_OPS
#define MEBP_NN_ACTIVATION_OPS

class NN_ActivationOp<string mnemonic, string equation> :
    NN_KernelOp<mnemonic, [Differentiable, SameOperandsAndResultShape]> {
  let description = equation;
  let arguments = (ins Tokens:$x);
  let results = (outs Tokens:$result);
}
class NN_ActivationGradientOp<string mnemonic, string equation> :
    NN_KernelOp<mnemonic, [SameOperandsAndResultShape]> {
  let description = equation;
  let arguments = (ins Tokens:$x, Tokens:$dy);
  let results = (outs Tokens:$result);
}
def NN_SiluOp : NN_ActivationOp<"silu", "y = x σ(x)"> { let summary = "Sigmoid linear unit"; }
def NN_SiluGradientOp : NN_ActivationGradientOp<"silu_gradient", "dx = dy σ(x) (1 + x (1 − σ(x)))"> {
  let summary = "The cotangent of silu's input";
}
def NN_ReluOp : NN_ActivationOp<"relu", "y = max(x, 0)"> { let summary = "Rectified linear unit"; }
def NN_ReluGradientOp : NN_ActivationGradientOp<"relu_gradient", "dx = dy where x > 0, else 0"> {
  let summary = "The cotangent of relu's input";
}
def NN_GeluOp : NN_ActivationOp<"gelu", "y = x Φ(x); approximation 1: x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))"> {
  let summary = "Gaussian error linear unit";
  let arguments = (ins Tokens:$x, DefaultValuedAttr<I64Attr, "0">:$approximation);
  let hasVerifier = 1;
}
def NN_GeluGradientOp : NN_ActivationGradientOp<"gelu_gradient", "dx = dy (Φ(x) + x φ(x)), or that of the tanh form"> {
  let summary = "The cotangent of gelu's input";
  let arguments = (ins Tokens:$x, Tokens:$dy, DefaultValuedAttr<I64Attr, "0">:$approximation);
}

def NN_SoftcapOp : NN_ActivationOp<"softcap", "y = c tanh(x / c) with c = softcap."> {
  let summary = "Keeps numbers between two bounds";
  let arguments = (ins Tokens:$x, F32Attr:$softcap);
  let hasVerifier = 1;
}
def NN_SoftcapGradientOp : NN_ActivationGradientOp<"softcap_gradient", "dx = dy (1 − tanh(x / c)²) with c = softcap."> {
  let summary = "The cotangent of softcap's input";
  let arguments = (ins Tokens:$x, Tokens:$dy, F32Attr:$softcap);
  let hasVerifier = 1;
}

def NN_ClampOp : NN_ActivationOp<"clamp", "y = min(max(x, lower), upper). A bound that is absent does not bound."> {
  let summary = "Keeps numbers within bounds";
  let arguments = (ins Tokens:$x, OptionalAttr<F32Attr>:$lower, OptionalAttr<F32Attr>:$upper);
  let hasVerifier = 1;
}
def NN_ClampGradientOp : NN_ActivationGradientOp<"clamp_gradient", "dx = dy where lower ≤ x ≤ upper, else 0."> {
  let summary = "The cotangent of clamp's input";
  let arguments = (ins Tokens:$x, Tokens:$dy, OptionalAttr<F32Attr>:$lower, OptionalAttr<F32Attr>:$upper);
  let hasVerifier = 1;
}

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
  let description = "y = f(gate) · up, with f = silu, gelu, gelu_tanh or sigmoid.";
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
