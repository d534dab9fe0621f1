// SPDX-License-Identifier: Apache-2.0
//
// The curves y = f(x) that kernels know: as kernels of their own, those that format/kernels.h has a row for, and as
// gates, f(gate) · up.
#pragma once

#include <cstdint>
#include <string_view>

#include "format/tables.h"

namespace mebp::format {

enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu, Sigmoid };

struct ActivationTraits {
  const char *name; // of its kernel, and of the attribute `activation` of a gate
  Activation activation;
};
inline constexpr ActivationTraits activations[] = {{"silu", Activation::Silu},
                                                   {"gelu", Activation::Gelu},
                                                   {"gelu_tanh", Activation::GeluTanh},
                                                   {"relu", Activation::Relu},
                                                   {"sigmoid", Activation::Sigmoid}};

constexpr const ActivationTraits *findActivation(std::string_view name) { return findByName(activations, name); }

// That of a kernel of its own or of its pullback; null where the kernel is anything else.
constexpr const ActivationTraits *findActivationOf(std::string_view kernel) {
  constexpr std::string_view ending = "_gradient";
  const size_t rest = kernel.size() < ending.size() ? 0 : kernel.size() - ending.size();
  return findActivation(kernel.substr(rest) == ending ? kernel.substr(0, rest) : kernel);
}

} // namespace mebp::format
