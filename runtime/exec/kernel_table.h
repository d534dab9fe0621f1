// SPDX-License-Identifier: Apache-2.0
//
// How a backend names its kernels: every file of kernels ends with a table of its own.
#pragma once

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

template <typename Kernel> struct NamedKernel {
  std::string_view name; // of docs/kernels.md
  Kernel kernel = nullptr;
};

// A constant, with what is linked and nothing else: so nothing refers to the other kernels, and the linker drops them.
template <typename Kernel> class KernelTableOf {
public:
  constexpr KernelTableOf(std::initializer_list<NamedKernel<Kernel>> kernels) {
    for (const NamedKernel<Kernel> &each : kernels)
      if (isLinked(each.name))
        entries[count++] = each;
  }

  // Null where it is not there.
  constexpr Kernel find(std::string_view name) const {
    for (size_t i = 0; i < count; ++i)
      if (entries[i].name == name)
        return entries[i].kernel;
    return nullptr;
  }

private:
  NamedKernel<Kernel> entries[16] = {};
  size_t count = 0;
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
