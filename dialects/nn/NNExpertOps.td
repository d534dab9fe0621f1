// SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts. A token has J slots, one for each expert that it is sent to. What a slot has lies in the token's
// own row, slot after slot: so every value has a row for each token, and no size depends on which experts are chosen.
#ifndef MEBP_NN_EXPERT_OPS
#define MEBP_NN_EXPERT_OPS

include "dialects/nn/NNBase.td"

//===- Experts ---------------------------------------------------------------------------------------------------===//

def NN_RouteOp : NN_KernelOp<"route", [Differentiable]> {
  let summary = "The experts of each token, and how much each counts";
  let description = [{
    s = softmax(logits) or σ(logits), by `score`. Of c = s + bias, ids are the J largest, the largest first and of equals
    the one with the lower number; p = s[ids]. With `score` softmax_of_chosen, c = logits + bias and
    p = softmax(logits[ids]). With softmax_of_near, c = logits + bias and p_j = softmax(logits)[ids_j] over the experts
    that no earlier slot has and that are near: with m = logits[ids_j], m − logit ≤ threshold max(|logit|, m).
    weights = scale p, with `normalized` divided by Σ p + epsilon.
    With `groups` G > 1, only the `top_groups` best groups of E/G neighbours are chosen from: those whose
    `best_of_group` largest c have the largest sum.
    logits [B,T,E], bias [E], weights and ids [B,T,J]; ids are whole numbers, as f32 holds them.
    The choice has no gradient: that of the weights goes to the logits by p and, normalized, by its sum.
  }];
  let arguments = (ins Tokens:$logits, Optional<Vector>:$bias, StrAttr:$score, UnitAttr:$normalized,
                       OptionalAttr<F32Attr>:$epsilon, DefaultValuedAttr<F32Attr, "1.0f">:$scale,
                       OptionalAttr<I64Attr>:$groups, OptionalAttr<I64Attr>:$top_groups,
                       OptionalAttr<I64Attr>:$best_of_group, OptionalAttr<F32Attr>:$threshold);
  let results = (outs Tokens:$weights, Tokens:$ids);
  let hasVerifier = 1;
}

def NN_RouteGradientOp : NN_KernelOp<"route_gradient"> {
  let summary = "The cotangent of a router's logits";
  let description = [{
    With s, p and ids as in nn.route, g = scale dweights, and normalized g = (g − Σ g p / z) / z, z = Σ p + epsilon:
    ds = g at the ids, 0 elsewhere; dlogits = s (ds − Σ ds s) of a softmax, ds s (1 − s) of σ. With softmax_of_chosen,
    dlogits = p (g − Σ g p) at the ids, 0 elsewhere. With softmax_of_near, q_j the softmax that p_j is of, 0 where no
    expert is near: dlogits = Σ g_j p_j (i_j − q_j) over the slots j, i_j 1 at ids_j, 0 elsewhere.
  }];
  let arguments = (ins Tokens:$logits, Tokens:$ids, Tokens:$dweights, StrAttr:$score, UnitAttr:$normalized,
                       OptionalAttr<F32Attr>:$epsilon, DefaultValuedAttr<F32Attr, "1.0f">:$scale,
                       OptionalAttr<F32Attr>:$threshold);
  let results = (outs Tokens:$dlogits);
  let hasVerifier = 1;
}

def NN_ExpertLoadOp : NN_KernelOp<"expert_load", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "How much each expert is used, and how much the router would use it";
  let description = [{
    Over the rows whose `counted` is 1, not 0: scores_e = Σ softmax(logits)_e, counts_e is how many of their ids are e,
    both + accumulator. logits [B,T,E], ids [B,T,J], counted [B,T,1], scores and counts [E].
    A router's loss is E Σ counts_e scores_e / rows². Of the counts nothing has a gradient.
  }];
  let arguments = (ins Tokens:$logits, Tokens:$ids, Tokens:$counted, Optional<Vector>:$scores_accumulator,
                       Optional<Vector>:$counts_accumulator);
  let results = (outs Vector:$scores, Vector:$counts);
}

def NN_ExpertLoadGradientOp : NN_KernelOp<"expert_load_gradient"> {
  let summary = "The cotangent of a router's logits, of its scores";
  let description = [{
    With s = softmax(logits): dlogits = counted s (dscores − Σ dscores s). logits and dlogits [B,T,E], counted [B,T,1],
    dscores [E].
  }];
  let arguments = (ins Tokens:$logits, Tokens:$counted, Vector:$dscores);
  let results = (outs Tokens:$dlogits);
}

def NN_ExpertLinearOp : NN_KernelOp<"expert_linear", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "A linear layer of each slot's expert";
  let description = [{
    Of each slot j: y_j = alpha x_j w[e]ᵀ + bias[e] + addend_j with e = ids_j, w[e] the rows e M/E to (e + 1) M/E of w
    and bias[e] these elements of the bias.
    x [B,T,J·K], or [B,T,K] where all slots share it; w [M,K], ids [B,T,J], bias [M], addend and y [B,T,J·M/E]. Of w,
    only the rows of experts with a token are read.
    A w with as many rows as y has for each slot, [M,E·K] with x [B,T,J·K] and y [B,T,J·M], has the experts in columns:
    w[e] are e, e + E, e + 2 E, ... This is how PEFT lays out lora_B.
    dx_j = alpha dy_j w[e], summed over the slots where they share x; dw[e] = alpha Σ dy_jᵀ x_j, daddend = dy. There is
    no rule for the bias.
  }];
  let arguments = (ins Tokens:$x, Matrix:$weight, Tokens:$ids, Optional<Tokens>:$addend, Optional<Vector>:$bias,
                       DefaultValuedAttr<F32Attr, "1.0f">:$alpha);
  let results = (outs Tokens:$result);
  let assemblyFormat = [{
    `(` $x `,` $weight `,` $ids (`,` $addend^)? (`bias` $bias^)? `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the slots of a token have one x.
    bool sharesInput();
    /// Whether every token has the same expert: the rows of a linear layer's weight that make a part of what it gives.
    bool isPart();
  }];
}

def NN_ExpertLinearInputGradientOp : NN_KernelOp<"expert_linear_input_gradient"> {
  let summary = "The cotangent of the inputs of an expert linear layer, one for each slot";
  let description = [{
    dx_j = alpha dy_j w[e] + addend_j, with w[e] as in nn.expert_linear.
    dy [B,T,J·M/E], w [M,K], ids [B,T,J], addend and dx [B,T,J·K].
  }];
  let arguments = (ins Tokens:$dy, Matrix:$weight, Tokens:$ids, Optional<Tokens>:$addend,
                       DefaultValuedAttr<F32Attr, "1.0f">:$alpha);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_ExpertLinearSharedGradientOp : NN_KernelOp<"expert_linear_shared_gradient"> {
  let summary = "The cotangent of the input of an expert linear layer that all slots share";
  let description = [{
    dx = alpha Σ dy_j w[e] over the slots j + addend, with w[e] as in nn.expert_linear. It grows expert by expert.
    dy [B,T,J·M/E], w [M,K], ids [B,T,J], addend and dx [B,T,K].
  }];
  let arguments = (ins Tokens:$dy, Matrix:$weight, Tokens:$ids, Optional<Tokens>:$addend,
                       DefaultValuedAttr<F32Attr, "1.0f">:$alpha);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_ExpertLinearWeightGradientOp : NN_KernelOp<"expert_linear_weight_gradient"> {
  let summary = "The gradient of an expert linear layer's weight";
  let description = [{
    dw[e] = alpha Σ dy_jᵀ x_j over the slots with ids_j = e, + accumulator[e]: 0, or the accumulator, where no token has
    the expert. dy [B,T,J·M/E], x as in nn.expert_linear, dw [M,K].
  }];
  let arguments = (ins Tokens:$dy, Tokens:$x, Tokens:$ids, Optional<Matrix>:$accumulator,
                       DefaultValuedAttr<F32Attr, "1.0f">:$alpha);
  let results = (outs Matrix:$result);
  let hasVerifier = 1;
}

def NN_ExpertSumOp : NN_KernelOp<"expert_sum", [Differentiable]> {
  let summary = "What a token's experts give, each as much as it counts";
  let description = [{
    out = Σ weights_j y_j over the slots. y [B,T,J·D], weights [B,T,J], out [B,T,D].
    dy_j = weights_j dout, dweights_j = Σ dout y_j over the features.
  }];
  let arguments = (ins Tokens:$y, Tokens:$weights);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_ExpertSumGradientOp : NN_KernelOp<"expert_sum_gradient"> {
  let summary = "The cotangents of what the experts give, and of the weights";
  let description = "dy_j = weights_j dout, dweights_j = Σ dout y_j over the features.";
  let arguments = (ins Tokens:$y, Tokens:$weights, Tokens:$cotangent);
  let results = (outs Tokens:$dy, Tokens:$dweights);
  let hasVerifier = 1;
}

#endif
