// SPDX-License-Identifier: Apache-2.0
//
// Gradients of what is no factor of a product. x, dy [N,F]; dw and its accumulator, which are one: [1,G] of a norm or a
// bias, [V,D] or [P,D] of a table.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <cmath>

namespace mebp::cpu::reference {

// Zeros where there is nothing to add to.
static void begin(const Tensor &gradient, const Tensor &accumulator) {
  for (int64_t n = 0; !accumulator.present() && n < gradient.rows; ++n)
    for (int64_t i = 0; i < gradient.columns; ++i)
      rowOf(gradient, n).set(i, 0.0f);
}

static void addTo(Row sum, int64_t i, double term) { sum.set(i, static_cast<float>(sum[i] + term)); }

static void rmsNormWeightGradient(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &dw = call.results[0];
  begin(dw, operandOf(call, 2));
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t group = 0; group < x.columns; group += dw.columns) {
      const Row in = rowOf(x, n) + group, upstream = rowOf(dy, n) + group;
      double squares = 0;
      for (int64_t i = 0; i < dw.columns; ++i)
        squares += static_cast<double>(in[i]) * in[i];
      double rms = std::sqrt(squares / static_cast<double>(dw.columns) + call.attributes.epsilon);
      for (int64_t i = 0; i < dw.columns; ++i)
        addTo(rowOf(dw, 0), i, upstream[i] * (in[i] / rms));
    }
}

static void layerNormWeightGradient(const Call &call, const Context &) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &dw = call.results[0];
  begin(dw, operandOf(call, 2));
  const auto size = static_cast<double>(dw.columns);
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t group = 0; group < x.columns; group += dw.columns) {
      const Row in = rowOf(x, n) + group, upstream = rowOf(dy, n) + group;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < dw.columns; ++i)
        mean += in[i];
      mean /= size;
      for (int64_t i = 0; i < dw.columns; ++i)
        variance += (in[i] - mean) * (in[i] - mean);
      double deviation = std::sqrt(variance / size + call.attributes.epsilon);
      for (int64_t i = 0; i < dw.columns; ++i)
        addTo(rowOf(dw, 0), i, upstream[i] * ((in[i] - mean) / deviation));
    }
}

static void biasGradient(const Call &call, const Context &) {
  const Tensor &dy = call.operands[0], &db = call.results[0];
  begin(db, operandOf(call, 1));
  for (int64_t n = 0; n < dy.rows; ++n)
    for (int64_t i = 0; i < dy.columns; ++i)
      addTo(rowOf(db, 0), i, rowOf(dy, n)[i]);
}

static void embeddingWeightGradient(const Call &call, const Context &) {
  const Tensor &ids = call.operands[0], &dy = call.operands[1], &dw = call.results[0];
  begin(dw, operandOf(call, 2));
  for (int64_t n = 0; n < dy.rows; ++n)
    for (int64_t i = 0; i < dy.columns; ++i)
      addTo(rowOf(dw, labelOf(ids, n)), i, rowOf(dy, n)[i]);
}

static void positionEmbeddingWeightGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &dw = call.results[0];
  begin(dw, operandOf(call, 1));
  for (int64_t n = 0; n < dy.rows; ++n) {
    const int64_t position = placeOf(dy, n, context).position - startOf(operandOf(call, 2), n);
    for (int64_t i = 0; i < dy.columns; ++i)
      addTo(rowOf(dw, position + call.attributes.offset), i, rowOf(dy, n)[i]);
  }
}

constexpr NamedKernel entries[] = {{"rms_norm_weight_gradient", rmsNormWeightGradient},
                                   {"layer_norm_weight_gradient", layerNormWeightGradient},
                                   {"bias_gradient", biasGradient},
                                   {"embedding_weight_gradient", embeddingWeightGradient},
                                   {"position_embedding_weight_gradient", positionEmbeddingWeightGradient}};
constexpr KernelTable parameterGradientKernels = entries;

} // namespace mebp::cpu::reference
