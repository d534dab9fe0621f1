// SPDX-License-Identifier: Apache-2.0
//
// ids, part, starts [N,1], w [V,C], [P,D] or [R,D], y [N,D].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

namespace mebp::cpu::reference {

static void embedding(const Call &call, const Context &) {
  for (int64_t r = 0; r < call.results[0].rows; ++r)
    takeRow(call, r);
}

static void positionEmbedding(const Call &call, const Context &context) {
  const Tensor &w = call.operands[0], &y = call.results[0];
  for (int64_t r = 0; r < y.rows; ++r)
    dequantizeRow(w, placeOf(y, r, context).position - startOf(operandOf(call, 1), r) + call.attributes.offset,
                  rowOf(y, r));
}

static void repeatRow(const Call &call, const Context &) {
  const Tensor &w = call.operands[0], &y = call.results[0];
  for (int64_t r = 0; r < y.rows; ++r)
    dequantizeRow(w, call.attributes.offset, rowOf(y, r));
}

constexpr NamedKernel entries[] = {
    {"embedding", embedding}, {"position_embedding", positionEmbedding}, {"repeat_row", repeatRow}};
constexpr KernelTable embeddingKernels = entries;

} // namespace mebp::cpu::reference
