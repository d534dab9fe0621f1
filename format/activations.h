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
  const char *name; // of the attribute `activation` of a gate and, if it is one, of its kernel
  Activation activation;
  const char *node; // of ONNX, that is such a gate where it is multiplied; of two alike, `approximate` says which
};
inline constexpr ActivationTraits activations[] = {{"silu", Activation::Silu, "Swish"},
                                                   {"gelu", Activation::Gelu, "Gelu"},
                                                   {"gelu_tanh", Activation::GeluTanh, "Gelu"},
                                                   {"relu", Activation::Relu, "Relu"},
                                                   {"sigmoid", Activation::Sigmoid, "Sigmoid"}};

constexpr const ActivationTraits *findActivation(std::string_view name) { return findByName(activations, name); }

// The kernel whose pullback it is, by their names; any other is its own.
constexpr std::string_view forwardOf(std::string_view kernel) {
  constexpr std::string_view ending = "_gradient";
  const size_t rest = kernel.size() < ending.size() ? 0 : kernel.size() - ending.size();
  return kernel.substr(rest) == ending ? kernel.substr(0, rest) : kernel;
}

// That of a kernel of its own or of its pullback; null where the kernel is anything else.
constexpr const ActivationTraits *findActivationOf(std::string_view kernel) {
  return findActivation(forwardOf(kernel));
}

} // namespace mebp::format
