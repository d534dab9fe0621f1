// SPDX-License-Identifier: Apache-2.0
//
// ids [N,1], w [V,D] or [P,D], y [N,D].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

namespace mebp::cpu::vector {

static void embedding(const Call &call, const Context &context) {
  const Tensor &ids = call.operands[0], &w = call.operands[1], &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) { dequantizeRow(w, labelOf(ids, row), rowOf(y, row)); });
}

static void positionEmbedding(const Call &call, const Context &context) {
  const Tensor &w = call.operands[0], &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) {
    dequantizeRow(w, placeOf(y, row, context).position + call.attributes.offset, rowOf(y, row));
  });
}

constexpr KernelTable embeddingKernels = {{"embedding", embedding}, {"position_embedding", positionEmbedding}};

} // namespace mebp::cpu::vector
