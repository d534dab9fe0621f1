// SPDX-License-Identifier: Apache-2.0
//
// A backend's table of kernels whose activations come from format/activations.h: two functions serve all of them, by
// the attribute that reading a kernel sets (read_attributes.h).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "format/activations.h"
#include "format/kernels.h"
#include "runtime/exec/kernel_table.h"

namespace mebp {

// By names and not by addresses, which GCC's sanitizers do not let a constant expression compare with null.
constexpr bool isActivationKernel(std::string_view kernel) {
  for (const format::ActivationTraits &traits : format::activations)
    if (format::forwardOf(kernel) == traits.name)
      return true;
  return false;
}
constexpr size_t countActivationKernels() {
  size_t count = 0;
  for (const format::KernelSignature &signature : format::kernelSignatures)
    count += isActivationKernel(signature.name);
  return count;
}
constexpr std::string_view activationKernel(size_t number) {
  for (const format::KernelSignature &signature : format::kernelSignatures)
    if (isActivationKernel(signature.name) && number-- == 0)
      return signature.name;
  return {};
}

template <typename Kernel, size_t others, size_t... own, size_t... other>
constexpr std::array<NamedKernelOf<Kernel>, sizeof...(own) + others>
joinActivations(Kernel forward, Kernel backward, const NamedKernelOf<Kernel> (&rest)[others],
                std::index_sequence<own...>, std::index_sequence<other...>) {
  return {NamedKernelOf<Kernel>(activationKernel(own), format::forwardOf(activationKernel(own)) == activationKernel(own)
                                                           ? forward
                                                           : backward)...,
          rest[other]...};
}

// Those, and the rest of the table.
template <typename Kernel, size_t others>
constexpr auto withActivations(Kernel forward, Kernel backward, const NamedKernelOf<Kernel> (&rest)[others]) {
  return joinActivations(forward, backward, rest, std::make_index_sequence<countActivationKernels()>(),
                         std::make_index_sequence<others>());
}

} // namespace mebp
