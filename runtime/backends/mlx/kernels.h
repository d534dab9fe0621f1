// SPDX-License-Identifier: Apache-2.0
//
// The kernels of docs/kernels.md, forward beside backward.
#pragma once

#include "runtime/backends/mlx/call.h"

namespace mebp::mlx {

void embedding(Call &call);
void positionEmbedding(Call &call);

void linear(Call &call);
void linearInputGradient(Call &call);
void linearWeightGradient(Call &call);

void rmsNorm(Call &call);
void rmsNormInputGradient(Call &call);
void layerNorm(Call &call);
void layerNormInputGradient(Call &call);

void rope(Call &call);

void attention(Call &call);
void attentionGradient(Call &call);

void silu(Call &call);
void siluGradient(Call &call);
void relu(Call &call);
void reluGradient(Call &call);
void gelu(Call &call);
void geluGradient(Call &call);
void gated(Call &call);
void gatedGradient(Call &call);

void add(Call &call);
void multiply(Call &call);
void scale(Call &call);
void split(Call &call);
void concat(Call &call);
void fill(Call &call);

void crossEntropyTile(Call &call);
void crossEntropy(Call &call);

} // namespace mebp::mlx
