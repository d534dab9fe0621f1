// SPDX-License-Identifier: Apache-2.0
//
// The names of docs/kernels.md, and who computes them.
#include "runtime/backends/cpu/registry.h"

#include "runtime/backends/cpu/reference/kernels.h"
#include "runtime/backends/cpu/vector/kernels.h"

namespace mebp::cpu {

namespace {

struct Entry {
  std::string_view name;
  Kernel reference;
  Kernel vector; // null: the reference kernel will do
};

constexpr Entry entries[] = {
    {"embedding", reference::embedding, vector::embedding},
    {"position_embedding", reference::positionEmbedding, vector::positionEmbedding},
    {"linear", reference::linear, vector::linear},
    {"linear_input_gradient", reference::linearInputGradient, vector::linearInputGradient},
    {"linear_weight_gradient", reference::linearWeightGradient, vector::linearWeightGradient},
    {"rms_norm", reference::rmsNorm, vector::rmsNorm},
    {"rms_norm_input_gradient", reference::rmsNormInputGradient, vector::rmsNormInputGradient},
    {"layer_norm", reference::layerNorm, vector::layerNorm},
    {"layer_norm_input_gradient", reference::layerNormInputGradient, vector::layerNormInputGradient},
    {"rope", reference::rope, vector::rope},
    {"attention", reference::attention, vector::attention},
    {"attention_gradient", reference::attentionGradient, vector::attentionGradient},
    {"silu", reference::silu, vector::silu},
    {"silu_gradient", reference::siluGradient, vector::siluGradient},
    {"relu", reference::relu, vector::relu},
    {"relu_gradient", reference::reluGradient, vector::reluGradient},
    {"gelu", reference::gelu, vector::gelu},
    {"gelu_gradient", reference::geluGradient, vector::geluGradient},
    {"gated", reference::gated, vector::gated},
    {"gated_gradient", reference::gatedGradient, vector::gatedGradient},
    {"add", reference::add, vector::add},
    {"multiply", reference::multiply, vector::multiply},
    {"scale", reference::scale, vector::scale},
    {"split", reference::split, nullptr},
    {"concat", reference::concat, nullptr},
    {"fill", reference::fill, nullptr},
    {"cross_entropy_tile", reference::crossEntropyTile, vector::crossEntropyTile},
    {"cross_entropy", reference::crossEntropy, vector::crossEntropy},
};

} // namespace

Kernel findKernel(std::string_view name, InstructionSet set) {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return set != InstructionSet::Reference && entry.vector ? entry.vector : entry.reference;
  return nullptr;
}

} // namespace mebp::cpu
