// SPDX-License-Identifier: Apache-2.0
//
// ids, part, starts [N,1], w [V,C], [P,D] or [R,D], y [N,D].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

namespace mebp::cpu::vector {

static void embedding(const Call &call, const Context &context) {
  const Tensor &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) { takeRow(call, row); });
}

static void positionEmbedding(const Call &call, const Context &context) {
  const Tensor &w = call.operands[0], &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) {
    const int64_t position = placeOf(y, row, context).position - startOf(operandOf(call, 1), row);
    dequantizeRow(w, position + call.attributes.offset, rowOf(y, row));
  });
}

static void repeatRow(const Call &call, const Context &context) {
  const Tensor &w = call.operands[0], &y = call.results[0];
  parallelRows(context, y.rows, y.columns,
               [&](int64_t row) { dequantizeRow(w, call.attributes.offset, rowOf(y, row)); });
}

constexpr NamedKernel entries[] = {
    {"embedding", embedding}, {"position_embedding", positionEmbedding}, {"repeat_row", repeatRow}};
constexpr KernelTable embeddingKernels = entries;

} // namespace mebp::cpu::vector
