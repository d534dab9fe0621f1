// SPDX-License-Identifier: Apache-2.0
//
// What only the import knows: nodes of ONNX, constants, masks and tables of positions.
#ifndef MEBP_NN_IMPORT_OPS
#define MEBP_NN_IMPORT_OPS

include "dialects/nn/NNBase.td"

//===- Import only -----------------------------------------------------------------------------------------------===//

def NN_OnnxOp : Op<NN_Dialect, "onnx", [Pure]> {
  let summary = "An ONNX node that is not an nn op yet";
  let description = [{
    Exists between the import passes only, at the static shapes of the file, with ONNX's name and meaning. Raising adds
    names of its own: `Linear` (x, weight, bias), `Swish` (x) {factor}, `Softcap` (x) {softcap}, `Xielu` (x, alpha_p,
    alpha_n) {beta, epsilon}, `Gated` (gate, up) {activation, factor}, `Route` (logits, bias) with weights and ids,
    `ExpertLinear` (x, weight, ids, bias), `ExpertScale` (weights, scales, ids) and `ExpertSum` (y, weights), `Decay`
    (x, bias, rate). Our exporter writes `CausalConv` (x, weight, bias) and `GatedDelta` (q, k, v, g, beta) {scale}.
    Raising folds into RotaryEmbedding, Attention and RMSNormalization what ONNX spells out around them. A node that is
    still there when import ends is an error that names it.
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

#endif
