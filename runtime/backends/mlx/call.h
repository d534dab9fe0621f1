// SPDX-License-Identifier: Apache-2.0
//
// What a kernel of this backend sees. It adds nodes to MLX's graph and computes nothing; docs/kernels.md defines it.
#pragma once

#include <vector>

#include "runtime/backends/mlx/value.h"
#include "runtime/exec/attributes.h"
#include "runtime/exec/kernel_table.h"

namespace mebp::mlx {

// The live size of a result, and which token or vocabulary row its first row or column is.
struct Window {
  format::ElementType element = format::F32;
  int rows = 0, columns = 0;
  int firstRow = 0, firstColumn = 0;
};

// Operands and results in docs/kernels.md's order; an absent operand is null, an absent result has no rows.
struct Call {
  const Attributes &attributes;
  std::vector<const Value *> operands;
  std::vector<Window> results;
  int batch = 0, sequence = 0; // of this step
  std::vector<std::optional<array>> given;
  int firstRow = 0; // which token row the first operand begins with

  bool has(size_t operand) const { return operand < operands.size() && operands[operand]; }
  const Value &value(size_t operand) const { return *operands[operand]; }
  array numbers(size_t operand) const { return numbersOf(value(operand)); }
  bool wants(size_t result) const { return result < results.size() && results[result].rows > 0; }
  // Rounds what was computed to how the result is stored.
  void give(size_t result, const array &computed) {
    given[result] = ::mlx::core::astype(computed, dtypeOf(results[result].element));
  }
};

using Kernel = void (*)(Call &);
using KernelTable = KernelTableOf<Kernel>;

// The kernel of that name, or null.
Kernel findKernel(const std::string &name);

// The token rows [first, first + count), as their positions within their batch items.
array positionsOf(int first, int count, int sequence);

} // namespace mebp::mlx
