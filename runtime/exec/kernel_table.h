// SPDX-License-Identifier: Apache-2.0
//
// How a backend names its kernels: every file of kernels ends with a table of its own.
#pragma once

#include <initializer_list>
#include <string_view>

namespace mebp {

template <typename Kernel> struct NamedKernel {
  std::string_view name; // of docs/kernels.md
  Kernel kernel;
};

template <typename Kernel> using KernelTableOf = std::initializer_list<NamedKernel<Kernel>>;

// Null where no table has it.
template <typename Kernel>
Kernel findKernelIn(std::initializer_list<const KernelTableOf<Kernel> *> tables, std::string_view name) {
  for (const KernelTableOf<Kernel> *table : tables)
    for (const NamedKernel<Kernel> &entry : *table)
      if (entry.name == name)
        return entry.kernel;
  return nullptr;
}

} // namespace mebp
