// SPDX-License-Identifier: Apache-2.0
//
// The head's log-probabilities, and the kernels that they become.
#ifndef MEBP_NN_HEAD_OPS
#define MEBP_NN_HEAD_OPS

include "dialects/nn/NNBase.td"

//===- Objective -------------------------------------------------------------------------------------------------===//

class NN_HeadOp<string mnemonic, list<Trait> traits> :
    Op<NN_Dialect, mnemonic, !listconcat(traits, [Pure, NN_SequenceOpInterface])> {
  let hasVerifier = 1;
}
def NN_LogProbabilityOp : NN_HeadOp<"log_probability", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "The language model's head: each row's log-probability of its label, and the entropy";
  let description = [{
    With l = x wᵀ + low_alpha low low_weightᵀ + bias, or c tanh(l / c) of it with a `softcap` c, and p = softmax(l):
    log_probabilities = log p_label,
    entropy = −Σ_v p_v log p_v; both 0 where the label is −100. x [B,T,D], w [V,D], labels [B,T,1] (shifted already),
    low [B,T,R], low_weight [V,R], bias [V], results [B,T,1]. Not a kernel: it becomes
    loops over tiles of rows and of the vocabulary, so that whole logits never exist.
  }];
  let arguments = (ins Tokens:$x, Matrix:$weight, TokenIds:$labels, Optional<Tokens>:$low, Optional<Matrix>:$low_weight,
                       Optional<Vector>:$bias, OptionalAttr<F32Attr>:$low_alpha, OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$log_probabilities, Tokens:$entropy);
  let assemblyFormat = [{
    `(` $x `,` $weight `,` $labels (`low` $low^ `,` $low_weight)? (`bias` $bias^)? `)` attr-dict `:`
    functional-type(operands, results)
  }];
}
class NN_HeadGradientOp<string mnemonic> : NN_HeadOp<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = (ins Tokens:$x, Matrix:$weight, TokenIds:$labels, Tokens:$coefficients,
                       Optional<Tokens>:$entropy_coefficients, Optional<Tokens>:$low, Optional<Matrix>:$low_weight,
                       Optional<Vector>:$bias, OptionalAttr<F32Attr>:$low_alpha, OptionalAttr<F32Attr>:$softcap);
  let assemblyFormat = [{
    `(` $x `,` $weight `,` $labels `,` $coefficients (`entropy` $entropy_coefficients^)?
    (`low` $low^ `,` $low_weight)? (`bias` $bias^)? `)` attr-dict `:` functional-type(operands, results)
  }];
}
def NN_LogProbabilityGradientOp : NN_HeadGradientOp<"log_probability_gradient"> {
  let summary = "The cotangent of the head's input, and what log_probability gives, in one sweep";
  let description = [{
    dx = coefficients (w[label] − p w), coefficients [B,T,1] the cotangents of the log-probabilities; 0 where the label
    is −100. With a softcap, each row of w counts times 1 − (l / c)². What goes back through `low` is not part of it. With
    entropy_coefficients, the cotangents of the entropies, dx = dl w with dl as in nn.log_probability_weight_gradient,
    which takes a second sweep.
  }];
  let results = (outs Tokens:$log_probabilities, Tokens:$entropy, Tokens:$dx);
}
def NN_LogProbabilityWeightGradientOp : NN_HeadGradientOp<"log_probability_weight_gradient"> {
  let summary = "The gradient of the head's weight";
  let description = [{
    dw = dlᵀ x summed over batch and sequence, dl = coefficients (onehot(label) − p) − entropy_coefficients p (log p +
    entropy), times 1 − (l / c)² with a softcap, 0 where the label is −100. A sweep of its own: p is known only when the running softmax has ended.
  }];
  let results = (outs Matrix:$dweight);
}
def NN_LogProbabilityBiasGradientOp : NN_HeadGradientOp<"log_probability_bias_gradient"> {
  let summary = "The gradient of the head's bias";
  let description = [{
    dbias = dl summed over batch and sequence, dl as in nn.log_probability_weight_gradient.
  }];
  let results = (outs Vector:$dbias);
}
def NN_LogProbabilityLowGradientOp : NN_HeadGradientOp<"log_probability_low_gradient"> {
  let summary = "The cotangent of the head's product of low rank, and the gradient of its weight";
  let description = [{
    With dl as in nn.log_probability_weight_gradient: dlow = low_alpha dl low_weight, dlow_weight = low_alpha dlᵀ low
    summed over batch and sequence. One sweep gives both; dlow_weight is there where low_weight is trained.
  }];
  let results = (outs Tokens:$dlow, Optional<Matrix>:$dlow_weight);
}
def NN_LogProbabilityLogitsGradientOp : NN_KernelOp<"log_probability_logits_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangent of one tile of logits, from the whole running softmax";
  let description = [{
    With z = sum + exp(target − max) and p_v = exp(l_v − max) / z: dl_v = −coefficients p_v, but coefficients sum / z at
    the label; 0 where the label is −100. With entropy_coefficients, dl_v −= entropy_coefficients p_v (l_v − max − mean),
    mean = (weighted + (target − max) exp(target − max)) / z, the mean of l − max. With a softcap c, l is
    c tanh(logits / c), and dl_v is times 1 − (l_v / c)².
  }];
  let arguments = (ins Tokens:$logits, TokenIds:$labels, Tokens:$max, Tokens:$sum, Tokens:$target, Tokens:$coefficients,
                       Optional<Tokens>:$weighted, Optional<Tokens>:$entropy_coefficients,
                       OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$dlogits);
  let hasVerifier = 1;
}
def NN_LogProbabilityTileOp : NN_KernelOp<"log_probability_tile"> {
  let summary = "One tile of logits into the running softmax";
  let description = [{
    For the vocabulary rows of this tile: m = max(max, rowmax(l)), c = exp(max − m), p_v = exp(l_v − m) but 0 at the
    label, weighted = c (weighted + (max − m) sum) + Σ p_v (l_v − m), sum = c sum + Σ p_v, accumulator = c accumulator,
    target = l_label if it is here. With a softcap c, l is c tanh(logits / c), and the result p is times 1 − (l / c)².
  }];
  let arguments = (ins Tokens:$logits, TokenIds:$labels, Tokens:$max, Tokens:$sum, Tokens:$weighted, Tokens:$target,
                       Optional<Tokens>:$accumulator, OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$p, Tokens:$new_max, Tokens:$new_sum, Tokens:$new_weighted, Tokens:$new_target,
                      Optional<Tokens>:$new_accumulator);
  let hasVerifier = 1;
}
def NN_LogProbabilityFromTilesOp : NN_KernelOp<"log_probability_from_tiles", [AttrSizedOperandSegments]> {
  let summary = "Log-probabilities, entropy, and the cotangent of the head's input, from the running softmax";
  let description = [{
    With gap = max − target, e = exp(−gap), z = sum + e, for rows with a label: log_probabilities = −(log z + gap),
    entropy = log z − (weighted − e gap) / z, dx = coefficients (sum w[label] − accumulator) / z. 0 for the others. With a
    softcap c, w[label] is times 1 − (target / c)².
  }];
  let arguments = (ins TokenIds:$labels, Tokens:$max, Tokens:$sum, Tokens:$weighted, Tokens:$target,
                       Optional<Tokens>:$coefficients, Optional<Tokens>:$accumulator, Optional<Matrix>:$weight,
                       OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$log_probabilities, Tokens:$entropy, Optional<Tokens>:$dx);
  let hasVerifier = 1;
}

#endif
