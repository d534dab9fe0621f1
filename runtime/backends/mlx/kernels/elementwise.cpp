// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y [N,F]; split and concat cut and join columns; repeat has x [N,F] and y [N,G], G a multiple of F.
#include "runtime/backends/mlx/kernels.h"
#include "runtime/exec/dropout.h"

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

// format/random.h
static array randomBits(const array &seed, const array &stream, const array &index) {
  const auto number = [](uint64_t value) { return array(value, mx::uint64); };
  const auto mixed = [&](const array &state, uint64_t shift) { return state ^ mx::right_shift(state, number(shift)); };
  const array step = number(0x9E3779B97F4A7C15ull);
  array state = (seed * step ^ (stream + number(1)) * number(0xD1B54A32D192ED03ull)) + (index + number(1)) * step;
  state = mixed(state, 30) * number(0xBF58476D1CE4E5B9ull);
  state = mixed(state, 27) * number(0x94D049BB133111EBull);
  return mixed(state, 31);
}

// runtime/exec/dropout.h
static void dropout(Call &call) {
  const array x = call.numbers(0);
  if (!call.live.dropout)
    return call.give(0, x);
  const int rows = call.results[0].rows, columns = call.results[0].columns;
  const array &given = *call.live.dropout, row = range(call.firstRow, rows), length = array(call.live.sequence);
  const auto wide = [](const array &numbers) { return mx::astype(numbers, mx::uint64); };
  const array sample = mx::slice(given, {1}, {2}) + wide(mx::floor_divide(row, length));
  const array salt = array(static_cast<uint64_t>(call.attributes.salt), mx::uint64);
  const array key = mx::reshape(randomBits(mx::slice(given, {0}, {1}), salt, sample), {rows, 1});
  const array position = mx::reshape(wide(mx::remainder(row, length)), {rows, 1});
  const array pair = mx::reshape(mx::arange(0, (columns + 1) / 2, mx::uint64), {1, -1});
  const array bits = mx::slice(mx::view(randomBits(key, position, pair), mx::uint32), {0, 0}, {rows, columns});
  const array isKept = bits >= array(dropoutThreshold(call.attributes.p), mx::uint32);
  call.give(0, x * mx::where(isKept, array(dropoutScale(call.attributes.p)), array(0.0f)));
}

static void fill(Call &call) {
  const Window &y = call.results[0];
  call.give(0, mx::full({y.rows, y.columns}, call.attributes.value, mx::float32));
}

constexpr NamedKernel entries[] = {
    {"add", add},        {"multiply", multiply}, {"scale", scale},   {"split", split},
    {"concat", concat},  {"fill", fill},         {"repeat", repeat}, {"repeat_gradient", repeatGradient},
    {"dropout", dropout}};
constexpr KernelTable elementwiseKernels = entries;

} // namespace mebp::mlx
