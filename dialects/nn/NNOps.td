// SPDX-License-Identifier: Apache-2.0
#ifndef MEBP_NN_OPS
#define MEBP_NN_OPS

include "dialects/nn/NNAttributes.td"
include "dialects/nn/NNInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===- Parameters ------------------------------------------------------------------------------------------------===//

def NN_ParameterOp : Op<NN_Dialect, "parameter", [Symbol]> {
  let summary = "A named tensor of the model: frozen, or trainable";
  let description = [{
    Declares a parameter under its Hugging Face name (a trainable one under its PEFT key). `data` says where the bytes
    lie, `pieces` where those of its rows do that come one after the other, `inline_data` holds them where the ONNX file
    does, `drawn` says which random numbers they are; none of these means that --random-weights draws it. `transposed`:
    the tensor there is the transpose of this type. `bare`: no linear layer of the model's code has it, as none has a
    router's, and PEFT finds none to adapt. `storage`: how weights.bin has it, as --weights calls it, once
    mebp-assign-storage has decided. A trainable parameter starts as it is stored or, with an `initial_bound`, uniform
    in [-initial_bound, initial_bound]; it is stored nowhere then. `gradient_rank`: its gradient is projected to so many
    dimensions. `between`: an adapter trains it between these A and B. `whole`: it is trained itself, whatever
    else is trained by adapters, as a classifier is. `adapts`: it is a factor of this parameter's adapter, whose name PEFT
    does not make of the parameter's. `shape`: what the model's own tensor has, where that is of another rank, as that of
    experts is.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       OptionalAttr<NN_ExternalDataAttr>:$data, OptionalAttr<ArrayAttr>:$pieces,
                       OptionalAttr<ElementsAttr>:$inline_data,
                       OptionalAttr<NN_DrawnAttr>:$drawn, UnitAttr:$transposed, UnitAttr:$bare, UnitAttr:$whole,
                       OptionalAttr<StrArrayAttr>:$aliases, OptionalAttr<StrAttr>:$storage, UnitAttr:$trainable, OptionalAttr<F32Attr>:$initial_bound,
                       OptionalAttr<I64Attr>:$gradient_rank, OptionalAttr<FlatSymbolRefArrayAttr>:$between,
                       OptionalAttr<FlatSymbolRefAttr>:$adapts, OptionalAttr<DenseI64ArrayAttr>:$shape);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::RankedTensorType":$type)>];
  let extraClassDeclaration = [{
    /// Nothing until it is decided, and of what is trained.
    std::optional<::mebp::format::WeightFormat> getWeightFormat();
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def NN_ReadParameterOp : Op<NN_Dialect, "read_parameter", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The value of a parameter";
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$parameter `:` type($result) attr-dict";
}

//===- Import only -----------------------------------------------------------------------------------------------===//

def NN_OnnxOp : Op<NN_Dialect, "onnx", [Pure]> {
  let summary = "An ONNX node that is not an nn op yet";
  let description = [{
    Exists between the import passes only, at the static shapes of the file, with ONNX's name and meaning. Raising adds
    names of its own: `Linear` (x, weight, bias), `Swish` (x) {factor}, `Softcap` (x) {softcap}, `Xielu` (x, alpha_p,
    alpha_n) {beta, epsilon}, `Gated` (gate, up) {activation, factor}, `Route` (logits, bias) with weights and ids,
    `ExpertLinear` (x, weight, ids, bias) and `ExpertSum` (y, weights). It folds into RotaryEmbedding, Attention and
    RMSNormalization what ONNX spells out around them. A node that is still there when import ends is an error that names
    it.
  }];
  let arguments = (ins StrAttr:$op_type, Variadic<AnyType>:$inputs, OptionalAttr<DictionaryAttr>:$node_attributes);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$op_type `(` $inputs `)` ($node_attributes^)? attr-dict `:` functional-type($inputs, $outputs)";
}

def NN_ConstantOp : Op<NN_Dialect, "constant", [Pure, ConstantLike]> {
  let summary = "A small constant of the imported graph; import only";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
  let hasFolder = 1;
}

def NN_RotaryTableOp : Op<NN_Dialect, "rotary_table", [Pure]> {
  let summary = "Cosines or sines of positions times frequencies; import only";
  let description = [{
    y[.., t, .., i] = scale f(t · frequencies[i]), f = cos or sin; t counts along `position_axis`, i along the last
    axis, and all other axes have size 1.
  }];
  let arguments = (ins StrAttr:$function, DenseF32ArrayAttr:$frequencies, I64Attr:$position_axis,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$function attr-dict `:` type($result)";
}

def NN_CausalMaskOp : Op<NN_Dialect, "causal_mask", [Pure]> {
  let summary = "Which keys a query may see; import only";
  let description = [{
    On the last two axes, query t by key j: true, or 0, where j ≤ t (and j > t − window where window > 0); false, or
    a number so negative that softmax makes it 0, elsewhere.
  }];
  let arguments = (ins DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def NN_BandMaskOp : Op<NN_Dialect, "band_mask", [Pure]> {
  let summary = "Which keys a query of an encoder may see; import only";
  let description = "As nn.causal_mask, where |t − j| < window.";
  let arguments = (ins I64Attr:$window);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def NN_PositionBiasOp : Op<NN_Dialect, "position_bias", [Pure]> {
  let summary = "What attention adds to the score of a key by its position; import only";
  let description = [{
    y[.., h, t, j] = slopes[h] j, up to what is the same for all keys of a query. The last three axes are [heads, 1 or
    queries, keys]; those before are alike.
  }];
  let arguments = (ins DenseF32ArrayAttr:$slopes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def NN_PositionsOp : Op<NN_Dialect, "positions", [Pure]> {
  let summary = "offset, offset + 1, ... along the sequence, which is the last axis; import only";
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//===- Kernels ---------------------------------------------------------------------------------------------------===//

class NN_PureOp<string mnemonic, list<Trait> traits = []> : Op<NN_Dialect, mnemonic, !listconcat(traits, [Pure])> {
  let assemblyFormat = "`(` operands `)` attr-dict `:` functional-type(operands, results)";
}
class NN_KernelOp<string mnemonic, list<Trait> traits = []>
    : NN_PureOp<mnemonic, !listconcat(traits, [NN_KernelOpInterface, NN_SequenceOpInterface])>;
defvar Differentiable = DeclareOpInterfaceMethods<NN_DifferentiableOpInterface>;

class TokensOf<list<Type> elements>
    : Type<And<[3DTensorOf<elements>.predicate, CPred<"::mebp::nn::isTokens($_self)">]>,
           "tokens of " # AnyTypeOf<elements>.summary # " values", "::mlir::RankedTensorType">;
def Tokens : TokensOf<[AnyFloat]>;
def TokenIds : TokensOf<[I32, I64]>;
// [B,T,1]: the position in its batch item of the first token of the sample that a token belongs to. Absent: all zeros.
def Starts : TokensOf<[I32]>;
// [B,T,1]: that of the first token behind it. Absent: the sequence's length.
def Ends : TokensOf<[I32]>;
def Matrix : 2DTensorOf<[AnyFloat]>;
def Vector : 1DTensorOf<[AnyFloat]>;
// Activations, or the gradients that a parameter has from two readers.
def Summand : AnyTypeOf<[Tokens, Matrix, Vector]>;

def NN_EmbeddingOp : NN_KernelOp<"embedding", [Differentiable]> {
  let summary = "Rows of a table";
  let description = "y[b,t,:] = w[ids[b,t],:]. ids [B,T,1], w [V,D], y [B,T,D].";
  let arguments = (ins TokenIds:$ids, Matrix:$weight);
  let results = (outs Tokens:$result);
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

def NN_LinearInputGradientOp : NN_KernelOp<"linear_input_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangent of a linear layer's input";
  let description = [{
    dx = alpha (dy w + low_alpha low low_weight) + addend.
    dy [B,T,M], w [M,K], low [B,T,R], low_weight [R,K], addend and dx [B,T,K]. A kernel may round dy to bf16 where it is
    narrow: its exact value serves something else.
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

def NN_RmsNormOp : NN_KernelOp<"rms_norm", [Differentiable]> {
  let summary = "Root mean square norm, over all features or over each group of them";
  let description = [{
    For each group of G = size(w) features: y = x / sqrt(mean(x²) + epsilon) · (weight_offset + w). G divides F: a norm
    of every head has G = head size. x, y [B,T,F], w [G].
  }];
  let arguments = (ins Tokens:$x, Vector:$weight, F32Attr:$epsilon, DefaultValuedAttr<F32Attr, "0.0f">:$weight_offset);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_RmsNormInputGradientOp : NN_KernelOp<"rms_norm_input_gradient"> {
  let summary = "The cotangent of a root mean square norm's input";
  let description = [{
    With r = sqrt(mean(x²) + epsilon), n = x / r, u = dy (weight_offset + w): dx = (u − n mean(u n)) / r, group by group.
  }];
  let arguments = (ins Tokens:$x, Vector:$weight, Tokens:$dy, F32Attr:$epsilon,
                       DefaultValuedAttr<F32Attr, "0.0f">:$weight_offset);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_RmsNormWeightGradientOp : NN_KernelOp<"rms_norm_weight_gradient"> {
  let summary = "The gradient of a root mean square norm's weight";
  let description = [{
    With n = x / sqrt(mean(x²) + epsilon), group by group: dw = accumulator + dy n summed over batch, sequence and
    groups. x, dy [B,T,F], dw [G].
  }];
  let arguments = (ins Tokens:$x, Tokens:$dy, Optional<Vector>:$accumulator, F32Attr:$epsilon);
  let results = (outs Vector:$result);
  let hasVerifier = 1;
}

def NN_LayerNormOp : NN_KernelOp<"layer_norm", [Differentiable]> {
  let summary = "Layer norm, over all features or over each group of them";
  let description = [{
    For each group of G = size(w) features: n = (x − mean) / sqrt(var + epsilon), y = n (weight_offset + w) + b. G
    divides F: a norm of every head has G = head size. x, y [B,T,F], w, b [G].
  }];
  let arguments = (ins Tokens:$x, Vector:$weight, Optional<Vector>:$bias, F32Attr:$epsilon,
                       OptionalAttr<F32Attr>:$weight_offset);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_LayerNormInputGradientOp : NN_KernelOp<"layer_norm_input_gradient"> {
  let summary = "The cotangent of a layer norm's input";
  let description = [{
    With n as in nn.layer_norm, u = dy (weight_offset + w): dx = (u − mean(u) − n mean(u n)) / sqrt(var + epsilon),
    group by group.
  }];
  let arguments = (ins Tokens:$x, Vector:$weight, Tokens:$dy, F32Attr:$epsilon,
                       OptionalAttr<F32Attr>:$weight_offset);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_LayerNormWeightGradientOp : NN_KernelOp<"layer_norm_weight_gradient"> {
  let summary = "The gradient of a layer norm's weight";
  let description = [{
    With n as in nn.layer_norm, group by group: dw = accumulator + dy n summed over batch, sequence and groups. dw [G].
  }];
  let arguments = (ins Tokens:$x, Tokens:$dy, Optional<Vector>:$accumulator, F32Attr:$epsilon);
  let results = (outs Vector:$result);
  let hasVerifier = 1;
}

def NN_RopeOp : NN_KernelOp<"rope", [Differentiable]> {
  let summary = "Rotary position embedding, in halves or interleaved";
  let description = [{
    In each head of head_dim features, for i < f = size(frequencies) and a = (t − starts[t]) · frequencies[i] (inverse: −a):
    y[i] = scale (x[i] cos a − x[i+f] sin a), y[i+f] = scale (x[i+f] cos a + x[i] sin a); features from 2f on are
    copied. `interleaved`: a pair is not i and i+f, but 2i and 2i+1. The rotation is orthogonal, so its pullback is the inverse rotation times scale.
  }];
  let arguments = (ins Tokens:$x, Optional<Starts>:$starts, I64Attr:$head_dim, DenseF32ArrayAttr:$frequencies,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale, DefaultValuedAttr<BoolAttr, "false">:$inverse,
                       UnitAttr:$interleaved);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_AttentionOp : NN_KernelOp<"attention", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "Causal attention with grouped heads";
  let description = [{
    Per head, with keys starts[t] ≤ j ≤ t (and j > t − window where window > 0) and s = scale q kᵀ, or c tanh(scale q kᵀ / c) with a
    `softcap` c > 0: p = softmax(s), o = p v, lse = log Σ exp(s). q [B,T,H·d], k [B,T,K·d], v [B,T,K·e], o [B,T,H·e],
    lse [B,T,H]; head h reads kv head h / (H/K). Values may have a width e of their own. With
    `capacity`, k and v are states of nn.append: they have what earlier steps left as well. `sinks` [H] has one more score
    for each head, which counts in Σ exp(s), has no value, and is no output's: what is left of it is lse. `slopes`, one
    for each head, make s = scale q kᵀ + slope (j − t) (ALiBi); they are constants, and go with no softcap.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Optional<Starts>:$starts, Optional<Vector>:$sinks, I64Attr:$heads, I64Attr:$kv_heads, F32Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<I64Attr, "0">:$capacity,
                       OptionalAttr<F32Attr>:$softcap, OptionalAttr<DenseF32ArrayAttr>:$slopes);
  let results = (outs Tokens:$output, Tokens:$lse);
  let assemblyFormat = [{
    `(` $q `,` $k `,` $v (`,` $starts^)? (`sinks` $sinks^)? `)` attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_BidirectionalAttentionOp : NN_KernelOp<"bidirectional_attention", [AttrSizedOperandSegments, Differentiable]> {
  let summary = "Attention of an encoder, which sees all tokens of a sample, with grouped heads";
  let description = [{
    As nn.attention, with keys starts[t] ≤ j < ends[t], and |t − j| < window where window > 0.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Optional<Starts>:$starts, Optional<Ends>:$ends, I64Attr:$heads,
                       I64Attr:$kv_heads, F32Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
                       OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$output, Tokens:$lse);
  let hasVerifier = 1;
}

def NN_BidirectionalAttentionGradientOp :
    NN_KernelOp<"bidirectional_attention_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangents of bidirectional attention's inputs";
  let description = "As nn.attention_gradient, with the keys of nn.bidirectional_attention.";
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Tokens:$o, Tokens:$lse, Tokens:$cotangent,
                       Optional<Tokens>:$dk_accumulator, Optional<Tokens>:$dv_accumulator, Optional<Starts>:$starts,
                       Optional<Ends>:$ends, I64Attr:$heads, I64Attr:$kv_heads, F32Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window, OptionalAttr<F32Attr>:$softcap);
  let results = (outs Tokens:$dq, Tokens:$dk, Tokens:$dv);
  let hasVerifier = 1;
}

def NN_AppendOp : NN_KernelOp<"append"> {
  let summary = "Rows of tokens, kept for later steps";
  let description = [{
    result = state, but its row p mod `capacity` of each batch item is the row of the token at position p, for all
    tokens of the step. `state` and `result` are one memory, [B,capacity,F], which the block keeps from step to step.
  }];
  let arguments = (ins Tokens:$state, Tokens:$rows, I64Attr:$capacity);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}

def NN_AttentionGradientOp : NN_KernelOp<"attention_gradient", [AttrSizedOperandSegments]> {
  let summary = "The cotangents of attention's inputs";
  let description = [{
    With s as in nn.attention: p = exp(s − lse), D = rowsum(dO · o), ds = p (dO vᵀ − D), times 1 − (s / c)² with a
    softcap c: dv = pᵀ dO, dq = scale ds k, dk = scale dsᵀ q;
    dk and dv are added to their accumulators, which a loop over chunks of queries carries.
  }];
  let arguments = (ins Tokens:$q, Tokens:$k, Tokens:$v, Tokens:$o, Tokens:$lse, Tokens:$cotangent,
                       Optional<Tokens>:$dk_accumulator, Optional<Tokens>:$dv_accumulator, Optional<Starts>:$starts,
                       I64Attr:$heads, I64Attr:$kv_heads, F32Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
                       OptionalAttr<F32Attr>:$softcap, OptionalAttr<DenseF32ArrayAttr>:$slopes);
  let results = (outs Tokens:$dq, Tokens:$dk, Tokens:$dv);
  let hasVerifier = 1;
}

include "dialects/nn/NNActivationOps.td"

def NN_AddOp : NN_KernelOp<"add", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "Sum";
  let description = "y = a + b.";
  let arguments = (ins Summand:$a, Summand:$b);
  let results = (outs Summand:$result);
}
def NN_MultiplyOp : NN_KernelOp<"multiply", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "Product, element by element";
  let description = "y = a · b.";
  let arguments = (ins Tokens:$a, Tokens:$b);
  let results = (outs Tokens:$result);
}
def NN_ScaleOp : NN_KernelOp<"scale", [Differentiable, SameOperandsAndResultShape]> {
  let summary = "Product with a constant, and the sum with another";
  let description = "y = alpha x + shift.";
  let arguments = (ins Tokens:$x, F32Attr:$alpha, OptionalAttr<F32Attr>:$shift);
  let results = (outs Tokens:$result);
}
def NN_SplitOp : NN_KernelOp<"split", [Differentiable]> {
  let summary = "Parts of the features, in order";
  let description = [{
    x's features are `groups` groups of equal size. y_i has of each group the features start_i to start_i + size_i, where
    the sizes, times the groups, are the results' and add up to x's. Queries, keys and values of each head side by side
    are one group a head.
  }];
  let arguments = (ins Tokens:$x, OptionalAttr<I64Attr>:$groups);
  let results = (outs Variadic<Tokens>:$results);
  let hasVerifier = 1;
}
def NN_ConcatOp : NN_KernelOp<"concat", [Differentiable]> {
  let summary = "Features side by side";
  let description = "y = [x_0, x_1, ...] along the features, or along those of each group. It and split are each other's pullback.";
  let arguments = (ins Variadic<Tokens>:$parts, OptionalAttr<I64Attr>:$groups);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}
def NN_RepeatOp : NN_KernelOp<"repeat", [Differentiable]> {
  let summary = "Features side by side, again and again";
  let description = "y = [x, x, ...], as many as there is room for: what all heads have in common, for each of them.";
  let arguments = (ins Tokens:$x);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}
def NN_RepeatGradientOp : NN_KernelOp<"repeat_gradient"> {
  let summary = "The cotangent of repeat's input";
  let description = "dx = the sum of dy's parts, each as wide as dx.";
  let arguments = (ins Tokens:$dy);
  let results = (outs Tokens:$result);
  let hasVerifier = 1;
}
def NN_FillOp : NN_KernelOp<"fill"> {
  let summary = "A tensor of one value";
  let description = "y = value.";
  let arguments = (ins F32Attr:$value);
  let results = (outs AnyRankedTensor:$result);
}

include "dialects/nn/NNExpertOps.td"
include "dialects/nn/NNHeadOps.td"

#endif
