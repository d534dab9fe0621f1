// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y [N,F]; split and concat cut and join columns.
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

static void add(Call &call) { call.give(0, call.numbers(0) + call.numbers(1)); }
static void multiply(Call &call) { call.give(0, call.numbers(0) * call.numbers(1)); }
static void scale(Call &call) { call.give(0, call.attributes.alpha * call.numbers(0)); }

static void split(Call &call) {
  array x = call.numbers(0);
  int column = 0;
  for (size_t part = 0; part < call.results.size(); column += call.results[part++].columns)
    call.give(part, columnsOf(x, column, call.results[part].columns));
}

static void concat(Call &call) {
  std::vector<array> parts;
  for (size_t part = 0; part < call.operands.size(); ++part)
    parts.push_back(call.numbers(part));
  call.give(0, mx::concatenate(parts, 1));
}

static void fill(Call &call) {
  const Window &y = call.results[0];
  call.give(0, mx::full({y.rows, y.columns}, call.attributes.value, mx::float32));
}

constexpr KernelTable elementwiseKernels = {{"add", add},     {"multiply", multiply}, {"scale", scale},
                                            {"split", split}, {"concat", concat},     {"fill", fill}};

} // namespace mebp::mlx
