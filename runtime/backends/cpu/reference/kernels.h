// SPDX-License-Identifier: Apache-2.0
//
// The naive kernels: single-threaded, accumulating in double, one for every row of docs/kernels.md. They define what
// is right; every other family is tested against them.
#pragma once

#include "runtime/backends/cpu/kernel/kernel.h"

namespace mebp::cpu::reference {

void embedding(const Call &call, const Context &context);
void positionEmbedding(const Call &call, const Context &context);
void linear(const Call &call, const Context &context);
void linearInputGradient(const Call &call, const Context &context);
void linearWeightGradient(const Call &call, const Context &context);
void rmsNorm(const Call &call, const Context &context);
void rmsNormInputGradient(const Call &call, const Context &context);
void layerNorm(const Call &call, const Context &context);
void layerNormInputGradient(const Call &call, const Context &context);
void rope(const Call &call, const Context &context);
void attention(const Call &call, const Context &context);
void attentionGradient(const Call &call, const Context &context);
void silu(const Call &call, const Context &context);
void siluGradient(const Call &call, const Context &context);
void relu(const Call &call, const Context &context);
void reluGradient(const Call &call, const Context &context);
void gelu(const Call &call, const Context &context);
void geluGradient(const Call &call, const Context &context);
void gated(const Call &call, const Context &context);
void gatedGradient(const Call &call, const Context &context);
void add(const Call &call, const Context &context);
void multiply(const Call &call, const Context &context);
void scale(const Call &call, const Context &context);
void split(const Call &call, const Context &context);
void concat(const Call &call, const Context &context);
void fill(const Call &call, const Context &context);
void crossEntropyTile(const Call &call, const Context &context);
void crossEntropy(const Call &call, const Context &context);

} // namespace mebp::cpu::reference
