// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y [N,F]; split and concat cut and join columns; repeat has x [N,F] and y [N,G], G a multiple of F.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

namespace mebp::cpu::reference {

static void add(const Call &call, const Context &) {
  const Tensor &a = call.operands[0], &b = call.operands[1], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, rowOf(a, n)[i] + rowOf(b, n)[i]);
}

static void multiply(const Call &call, const Context &) {
  const Tensor &a = call.operands[0], &b = call.operands[1], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, rowOf(a, n)[i] * rowOf(b, n)[i]);
}

static void scale(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, call.attributes.alpha * rowOf(x, n)[i] + call.attributes.shift);
}

static void dropout(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  const uint32_t threshold = dropoutThreshold(call.attributes.p);
  const float scale = dropoutScale(call.attributes.p);
  for (int64_t n = 0; n < y.rows; ++n) {
    if (!context.dropout.isOn) {
      copyRow(rowOf(x, n), rowOf(y, n), y.columns);
      continue;
    }
    const Place place = placeOf(x, n, context);
    const DropoutRow drawn(context.dropout, call.attributes.salt, place.item, place.position);
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, rowOf(x, n)[i] * (drawn.bitsOf(i) < threshold ? 0.0f : scale));
  }
}

// Calls body(part's row, whole's row, columns) for each part of each group of each row.
template <typename Body>
static void forEachPart(const Tensor &whole, const Tensor *parts, size_t count, int64_t groups, const Body &body) {
  int64_t column = 0;
  for (size_t part = 0; part < count; ++part) {
    const int64_t size = parts[part].columns / groups;
    for (int64_t n = 0; n < whole.rows; ++n)
      for (int64_t group = 0; group < groups; ++group)
        body(rowOf(parts[part], n) + group * size, rowOf(whole, n) + (group * (whole.columns / groups) + column), size);
    column += size;
  }
}

static void split(const Call &call, const Context &) {
  forEachPart(call.operands[0], call.results, call.resultCount, call.attributes.groups,
              [](Row part, Row whole, int64_t size) { copyRow(whole, part, size); });
}

static void concat(const Call &call, const Context &) {
  forEachPart(call.results[0], call.operands, call.operandCount, call.attributes.groups,
              [](Row part, Row whole, int64_t size) { copyRow(part, whole, size); });
}

static void repeat(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t column = 0; column < y.columns; column += x.columns)
      copyRow(rowOf(x, n), rowOf(y, n) + column, x.columns);
}

static void repeatGradient(const Call &call, const Context &) {
  const Tensor &dy = call.operands[0], &dx = call.results[0];
  for (int64_t n = 0; n < dx.rows; ++n)
    for (int64_t i = 0; i < dx.columns; ++i) {
      double sum = 0;
      for (int64_t column = i; column < dy.columns; column += dx.columns)
        sum += rowOf(dy, n)[column];
      rowOf(dx, n).set(i, static_cast<float>(sum));
    }
}

static void fill(const Call &call, const Context &) {
  const Tensor &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, call.attributes.value);
}

constexpr NamedKernel entries[] = {
    {"add", add},        {"multiply", multiply}, {"scale", scale},   {"split", split},
    {"concat", concat},  {"fill", fill},         {"repeat", repeat}, {"repeat_gradient", repeatGradient},
    {"dropout", dropout}};
constexpr KernelTable elementwiseKernels = entries;

} // namespace mebp::cpu::reference
