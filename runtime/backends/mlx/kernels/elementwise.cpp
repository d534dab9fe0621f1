// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y [N,F]; split and concat cut and join columns; repeat has x [N,F] and y [N,G], G a multiple of F.
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

static void add(Call &call) { call.give(0, call.numbers(0) + call.numbers(1)); }
static void multiply(Call &call) { call.give(0, call.numbers(0) * call.numbers(1)); }
static void scale(Call &call) {
  const array product = call.attributes.alpha * call.numbers(0);
  call.give(0, call.attributes.shift == 0 ? product : product + call.attributes.shift);
}

// [rows * groups, columns / groups]: each group is a row of its own.
static array inGroups(const Call &call, const array &x) {
  const int groups = call.attributes.groups;
  return groups == 1 ? x : mx::reshape(x, {x.shape(0) * groups, x.shape(1) / groups});
}
static array outOfGroups(const Call &call, const array &x) {
  const int groups = call.attributes.groups;
  return groups == 1 ? x : mx::reshape(x, {x.shape(0) / groups, x.shape(1) * groups});
}

static void split(Call &call) {
  const array x = inGroups(call, call.numbers(0));
  int column = 0;
  for (size_t part = 0; part < call.results.size(); ++part) {
    const int columns = call.results[part].columns / call.attributes.groups;
    call.give(part, outOfGroups(call, columnsOf(x, column, columns)));
    column += columns;
  }
}

static void concat(Call &call) {
  std::vector<array> parts;
  for (size_t part = 0; part < call.operands.size(); ++part)
    parts.push_back(inGroups(call, call.numbers(part)));
  call.give(0, outOfGroups(call, mx::concatenate(parts, 1)));
}

static void repeat(Call &call) {
  const array x = call.numbers(0);
  call.give(0, mx::tile(x, {1, static_cast<int>(call.results[0].columns) / x.shape(1)}));
}

static void repeatGradient(Call &call) {
  const Window &dx = call.results[0];
  call.give(0, mx::sum(mx::reshape(call.numbers(0), {dx.rows, -1, dx.columns}), 1));
}

static void fill(Call &call) {
  const Window &y = call.results[0];
  call.give(0, mx::full({y.rows, y.columns}, call.attributes.value, mx::float32));
}

constexpr NamedKernel entries[] = {
    {"add", add},       {"multiply", multiply}, {"scale", scale},   {"split", split},
    {"concat", concat}, {"fill", fill},         {"repeat", repeat}, {"repeat_gradient", repeatGradient}};
constexpr KernelTable elementwiseKernels = entries;

} // namespace mebp::mlx
