// SPDX-License-Identifier: Apache-2.0
//
// The names of docs/kernels.md, and who computes them.
#include "runtime/backends/cpu/kernel.h"
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
    {"embedding", reference::embedding, nullptr},
    {"position_embedding", reference::positionEmbedding, nullptr},
    {"linear", reference::linear, vector::linear},
    {"linear_input_gradient", reference::linearInputGradient, vector::linearInputGradient},
    {"linear_weight_gradient", reference::linearWeightGradient, vector::linearWeightGradient},
    {"rms_norm", reference::rmsNorm, nullptr},
    {"rms_norm_input_gradient", reference::rmsNormInputGradient, nullptr},
    {"layer_norm", reference::layerNorm, nullptr},
    {"layer_norm_input_gradient", reference::layerNormInputGradient, nullptr},
    {"rope", reference::rope, nullptr},
    {"attention", reference::attention, nullptr},
    {"attention_gradient", reference::attentionGradient, nullptr},
    {"silu", reference::silu, nullptr},
    {"silu_gradient", reference::siluGradient, nullptr},
    {"relu", reference::relu, nullptr},
    {"relu_gradient", reference::reluGradient, nullptr},
    {"gelu", reference::gelu, nullptr},
    {"gelu_gradient", reference::geluGradient, nullptr},
    {"gated", reference::gated, nullptr},
    {"gated_gradient", reference::gatedGradient, nullptr},
    {"add", reference::add, nullptr},
    {"multiply", reference::multiply, nullptr},
    {"scale", reference::scale, nullptr},
    {"split", reference::split, nullptr},
    {"concat", reference::concat, nullptr},
    {"fill", reference::fill, nullptr},
    {"cross_entropy_tile", reference::crossEntropyTile, nullptr},
    {"cross_entropy", reference::crossEntropy, nullptr},
};

} // namespace

Kernel findKernel(std::string_view name, Family family) {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return family == Family::Vector && entry.vector ? entry.vector : entry.reference;
  return nullptr;
}

} // namespace mebp::cpu
