// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y [N,F]; split and concat cut and join columns.
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
      rowOf(y, n).set(i, call.attributes.alpha * rowOf(x, n)[i]);
}

static void split(const Call &call, const Context &) {
  const Tensor &x = call.operands[0];
  int64_t column = 0;
  for (size_t part = 0; part < call.resultCount; column += call.results[part++].columns)
    for (int64_t n = 0; n < x.rows; ++n)
      copyRow(rowOf(x, n) + column, rowOf(call.results[part], n), call.results[part].columns);
}

static void concat(const Call &call, const Context &) {
  const Tensor &y = call.results[0];
  int64_t column = 0;
  for (size_t part = 0; part < call.operandCount; column += call.operands[part++].columns)
    for (int64_t n = 0; n < y.rows; ++n)
      copyRow(rowOf(call.operands[part], n), rowOf(y, n) + column, call.operands[part].columns);
}

static void fill(const Call &call, const Context &) {
  const Tensor &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n).set(i, call.attributes.value);
}

constexpr KernelTable elementwiseKernels = {{"add", add},     {"multiply", multiply}, {"scale", scale},
                                            {"split", split}, {"concat", concat},     {"fill", fill}};

} // namespace mebp::cpu::reference
