// SPDX-License-Identifier: Apache-2.0
//
// What a kernel of this backend sees. It adds nodes to MLX's graph and computes nothing; docs/kernels.md defines it.
#pragma once

#include <vector>

#include "runtime/backends/mlx/start.h"
#include "runtime/backends/mlx/value.h"
#include "runtime/exec/attributes.h"
#include "runtime/exec/kernel_table.h"
#include "runtime/exec/routes.h"

namespace mebp::mlx {

// The live size of a result; no rows: nobody asks for it.
struct Window {
  format::ElementType element = format::F32;
  int rows = 0, columns = 0;
};

// What of the step a graph is made for.
struct Live {
  int batch = 0, sequence = 0;
  Start position;               // of each item's first token
  float logitScale = 1;         // Run::logitScale
  std::optional<array> dropout; // Run::dropout: key and first sample; none: it is off
  int keptPositions = 0;        // at least so many are in a state after the step, of those that it has room for
};

// Operands and results in docs/kernels.md's order; an absent operand is null, an absent result has no rows.
struct Call {
  const Attributes &attributes;
  const Live &live;
  const Routes &routes;
  std::vector<const Value *> operands = {};
  std::vector<Window> results = {};
  Start firstRow = {};    // which token row the call's first row is
  Start firstColumn = {}; // and which vocabulary row its first column
  std::vector<std::optional<array>> given = {};

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
using NamedKernel = NamedKernelOf<Kernel>;
using KernelTable = KernelTableOf<Kernel>;

// The kernel of that name, or null.
Kernel findKernel(const std::string &name);

// Of `count` rows of the call, the positions within their batch items.
array positionsOf(const Call &call, int count);
// Counted from where each row's sample starts; operand `starts` says where, if it is there.
array positionsInSample(const Call &call, int count, size_t starts);

} // namespace mebp::mlx
