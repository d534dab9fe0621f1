// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y [N,F]; split and concat cut and join columns.
#include "runtime/backends/cpu/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <algorithm>
#include <cstring>

namespace mebp::cpu::reference {

void add(const Call &call, const Context &) {
  const Tensor &a = call.operands[0], &b = call.operands[1], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n)[i] = rowOf(a, n)[i] + rowOf(b, n)[i];
}

void multiply(const Call &call, const Context &) {
  const Tensor &a = call.operands[0], &b = call.operands[1], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n)[i] = rowOf(a, n)[i] * rowOf(b, n)[i];
}

void scale(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    for (int64_t i = 0; i < y.columns; ++i)
      rowOf(y, n)[i] = call.attributes.alpha * rowOf(x, n)[i];
}

void split(const Call &call, const Context &) {
  const Tensor &x = call.operands[0];
  int64_t column = 0;
  for (size_t part = 0; part < call.resultCount; column += call.results[part++].columns)
    for (int64_t n = 0; n < x.rows; ++n)
      std::memcpy(rowOf(call.results[part], n), rowOf(x, n) + column, call.results[part].columns * sizeof(float));
}

void concat(const Call &call, const Context &) {
  const Tensor &y = call.results[0];
  int64_t column = 0;
  for (size_t part = 0; part < call.operandCount; column += call.operands[part++].columns)
    for (int64_t n = 0; n < y.rows; ++n)
      std::memcpy(rowOf(y, n) + column, rowOf(call.operands[part], n), call.operands[part].columns * sizeof(float));
}

void fill(const Call &call, const Context &) {
  const Tensor &y = call.results[0];
  for (int64_t n = 0; n < y.rows; ++n)
    std::fill_n(rowOf(y, n), y.columns, call.attributes.value);
}

} // namespace mebp::cpu::reference
