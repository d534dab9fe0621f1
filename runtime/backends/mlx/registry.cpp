// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

Kernel findKernel(const std::string &name) {
  static constexpr struct {
    const char *name;
    Kernel kernel;
  } entries[] = {
      {"embedding", embedding},
      {"position_embedding", positionEmbedding},
      {"linear", linear},
      {"linear_input_gradient", linearInputGradient},
      {"linear_weight_gradient", linearWeightGradient},
      {"rms_norm", rmsNorm},
      {"rms_norm_input_gradient", rmsNormInputGradient},
      {"layer_norm", layerNorm},
      {"layer_norm_input_gradient", layerNormInputGradient},
      {"rope", rope},
      {"attention", attention},
      {"attention_gradient", attentionGradient},
      {"silu", silu},
      {"silu_gradient", siluGradient},
      {"relu", relu},
      {"relu_gradient", reluGradient},
      {"gelu", gelu},
      {"gelu_gradient", geluGradient},
      {"gated", gated},
      {"gated_gradient", gatedGradient},
      {"add", add},
      {"multiply", multiply},
      {"scale", scale},
      {"split", split},
      {"concat", concat},
      {"fill", fill},
      {"cross_entropy_tile", crossEntropyTile},
      {"cross_entropy", crossEntropy},
  };
  for (const auto &entry : entries)
    if (name == entry.name)
      return entry.kernel;
  return nullptr;
}

} // namespace mebp::mlx
