// SPDX-License-Identifier: Apache-2.0
//
// How a backend names its kernels: every file of kernels ends with a table of its own.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "runtime/exec/linked_kernels.h"

namespace mebp {

// Whether this build has the kernels of that name: all of them, or what the bundles of MEBP_BUNDLES use.
constexpr bool isLinked(std::string_view name) {
  for (std::string_view linked : linkedKernels)
    if (linked == name)
      return true;
  return false;
}

// Of a kernel that is not linked only the name is left: nothing refers to it, and the linker drops it.
template <typename Kernel> struct NamedKernelOf {
  constexpr NamedKernelOf(std::string_view name, Kernel kernel)
      : name(name), kernel(isLinked(name) ? kernel : nullptr) {}

  std::string_view name; // of docs/kernels.md
  Kernel kernel;
};

// Of a constant array, which is as long as it has to be.
template <typename Kernel> class KernelTableOf {
public:
  template <size_t count>
  constexpr KernelTableOf(const NamedKernelOf<Kernel> (&kernels)[count]) : kernels(kernels), count(count) {}
  template <size_t count>
  constexpr KernelTableOf(const std::array<NamedKernelOf<Kernel>, count> &kernels)
      : kernels(kernels.data()), count(count) {}

  // Null where it is not there.
  constexpr Kernel find(std::string_view name) const {
    for (size_t i = 0; i < count; ++i)
      if (kernels[i].name == name)
        return kernels[i].kernel;
    return nullptr;
  }

private:
  const NamedKernelOf<Kernel> *kernels;
  size_t count;
};

// Null where no table has it.
template <typename Kernel>
constexpr Kernel findKernelIn(std::initializer_list<const KernelTableOf<Kernel> *> tables, std::string_view name) {
  for (const KernelTableOf<Kernel> *table : tables)
    if (Kernel found = table->find(name))
      return found;
  return nullptr;
}

} // namespace mebp
