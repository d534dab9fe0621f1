// SPDX-License-Identifier: Apache-2.0
//
// Norms over the features of a row.
#ifndef MEBP_NN_NORM_OPS
#define MEBP_NN_NORM_OPS

include "dialects/nn/NNBase.td"

//===- Norms -----------------------------------------------------------------------------------------------------===//

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

#endif
