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

// The n-th signature of such a kernel; behind the last, null.
constexpr const format::KernelSignature *activationSignature(size_t n) {
  for (const format::KernelSignature &signature : format::kernelSignatures)
    if (format::findActivationOf(signature.name) && n-- == 0)
      return &signature;
  return nullptr;
}
constexpr size_t activationSignatures() {
  size_t count = 0;
  while (activationSignature(count))
    ++count;
  return count;
}

template <typename Kernel, size_t others, size_t... own, size_t... other>
constexpr std::array<NamedKernelOf<Kernel>, sizeof...(own) + others>
joinActivations(Kernel forward, Kernel backward, const NamedKernelOf<Kernel> (&rest)[others],
                std::index_sequence<own...>, std::index_sequence<other...>) {
  return {NamedKernelOf<Kernel>(activationSignature(own)->name,
                                format::findActivation(activationSignature(own)->name) ? forward : backward)...,
          rest[other]...};
}

// Those, and the rest of the table.
template <typename Kernel, size_t others>
constexpr auto withActivations(Kernel forward, Kernel backward, const NamedKernelOf<Kernel> (&rest)[others]) {
  return joinActivations(forward, backward, rest, std::make_index_sequence<activationSignatures()>(),
                         std::make_index_sequence<others>());
}

} // namespace mebp
