// SPDX-License-Identifier: Apache-2.0
//
// x [N,K], w [M,K], low [N,R], lowWeight [M,R] or [R,K], y [N,M]. Loops run over w's rows on the outside, so that each
// is dequantised once.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <algorithm>

namespace mebp::cpu::reference {

static void linear(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &bias = operandOf(call, 2), &addend = operandOf(call, 3);
  const Tensor &low = operandOf(call, 4), &lowWeight = operandOf(call, 5);
  const Tensor &y = call.results[0];
  auto *weights = reinterpret_cast<float *>(context.workspace);
  float lowWeights[maximumLowRank];
  for (int64_t m = 0; m < w.rows; ++m) {
    float shift = 0;
    if (low.present())
      dequantizeRow(lowWeight, m, lowWeights);
    if (bias.present())
      dequantize(bias, 0, m, 1, &shift);
    dequantizeRow(w, m, weights);
    for (int64_t n = 0; n < x.rows; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < w.columns; ++k)
        sum += static_cast<double>(rowOf(x, n)[k]) * weights[k];
      for (int64_t k = 0; low.present() && k < low.columns; ++k)
        sum += call.attributes.lowAlpha * static_cast<double>(rowOf(low, n)[k]) * lowWeights[k];
      float rest = addend.present() ? rowOf(addend, n)[m] : 0.0f;
      if (bias.present())
        rest += shift;
      rowOf(y, n).set(m, static_cast<float>(call.attributes.alpha * sum + rest));
    }
  }
}

static void linearInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1], &addend = operandOf(call, 2), &dx = call.results[0];
  const Tensor &low = operandOf(call, 3), &lowWeight = operandOf(call, 4);
  int64_t columns = w.columns;
  auto *weights = reinterpret_cast<float *>(context.workspace);
  auto *sums = reinterpret_cast<double *>(context.workspace + (columns + 1) / 2 * 2 * sizeof(float));
  int64_t room = workspaceBytes / sizeof(double) - (columns + 1) / 2;
  int64_t rows = std::max<int64_t>(room / columns, 1);
  for (int64_t first = 0; first < dy.rows; first += rows) {
    int64_t count = std::min(rows, dy.rows - first);
    std::fill_n(sums, count * columns, 0.0);
    auto addProduct = [&](const Tensor &left, const Tensor &right, double scale) {
      for (int64_t m = 0; m < right.rows; ++m) {
        dequantizeRow(right, m, weights);
        for (int64_t n = 0; n < count; ++n) {
          double factor = scale * rowOf(left, first + n)[m];
          for (int64_t k = 0; k < columns; ++k)
            sums[n * columns + k] += factor * weights[k];
        }
      }
    };
    addProduct(dy, w, 1);
    if (low.present())
      addProduct(low, lowWeight, call.attributes.lowAlpha);
    for (int64_t n = 0; n < count; ++n)
      for (int64_t k = 0; k < columns; ++k) {
        double rest = addend.present() ? rowOf(addend, first + n)[k] : 0.0f;
        rowOf(dx, first + n).set(k, static_cast<float>(call.attributes.alpha * sums[n * columns + k] + rest));
      }
  }
}

static void linearWeightGradient(const Call &call, const Context &) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &accumulator = operandOf(call, 2);
  const Tensor &dw = call.results[0];
  for (int64_t m = 0; m < dw.rows; ++m)
    for (int64_t k = 0; k < dw.columns; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < dy.rows; ++n)
        sum += static_cast<double>(rowOf(dy, n)[m]) * rowOf(x, n)[k];
      double before = accumulator.present() ? floatRowOf(dw, m)[k] : 0.0f;
      floatRowOf(dw, m)[k] = static_cast<float>(call.attributes.alpha * sum + before);
    }
}

constexpr NamedKernel entries[] = {{"linear", linear},
                                   {"linear_input_gradient", linearInputGradient},
                                   {"linear_weight_gradient", linearWeightGradient}};
constexpr KernelTable linearKernels = entries;

} // namespace mebp::cpu::reference
