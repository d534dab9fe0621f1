// SPDX-License-Identifier: Apache-2.0
//
// x, y, dx, dy [N,C], w [C,W], bias [1,C]; state, owed, next [W-1,C] of one batch item or of each; starts [N,1].
#include "runtime/backends/cpu/kernel/convolution.h"
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

namespace mebp::cpu::reference {

static void causalConv(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &bias = operandOf(call, 2), &y = call.results[0];
  const Convolution convolution(call, context, x, 3, 4, 1);
  const int64_t width = w.columns;
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t c = 0; c < x.columns; ++c) {
      float start = 0;
      if (bias.present())
        dequantize(bias, 0, c, 1, &start);
      double sum = start;
      for (int64_t j = 0; j < convolution.readableTapsOf(n); ++j) {
        const float *kept = convolution.keptRow(n, j);
        sum += static_cast<double>(floatRowOf(w, c)[width - 1 - j]) * (kept ? kept[c] : rowOf(x, n - j)[c]);
      }
      rowOf(y, n).set(c, static_cast<float>(sum));
    }
  convolution.leave([&](int64_t row, float *out) {
    for (int64_t c = 0; c < x.columns; ++c)
      out[c] = rowOf(x, row)[c];
  });
}

static void causalConvInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1], &dx = call.results[0];
  const Convolution convolution(call, context, dy, 2, 3, 1);
  const int64_t width = w.columns;
  // What the call's rows add to row n, which may lie before them.
  auto gathered = [&](int64_t n, int64_t c) {
    double sum = 0;
    const auto [first, last] = convolution.readersOf(n);
    for (int64_t j = first; j < last; ++j)
      sum += static_cast<double>(floatRowOf(w, c)[width - 1 - j]) * rowOf(dy, n + j)[c];
    return sum;
  };
  for (int64_t n = 0; n < dy.rows; ++n) {
    const float *owed = convolution.owedRow(n);
    for (int64_t c = 0; c < dy.columns; ++c)
      rowOf(dx, n).set(c, static_cast<float>(gathered(n, c) + (owed ? owed[c] : 0)));
  }
  convolution.owe([&](int64_t row, const float *owed, float *out) {
    for (int64_t c = 0; c < dy.columns; ++c)
      out[c] = static_cast<float>(gathered(row, c) + (owed ? owed[c] : 0));
  });
}

static void causalConvWeightGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &accumulator = operandOf(call, 2), &dw = call.results[0];
  const Convolution convolution(call, context, dy, -1, 3, -1);
  const int64_t width = dw.columns;
  for (int64_t c = 0; c < dw.rows; ++c)
    for (int64_t j = 0; j < width; ++j) {
      double sum = accumulator.present() ? floatRowOf(accumulator, c)[width - 1 - j] : 0;
      for (int64_t n = 0; n < dy.rows; ++n)
        if (j <
            std::min(convolution.tapsOf(n), (dy.firstRow + n) % context.sequence + 1)) // x has the step's rows alone
          sum += static_cast<double>(rowOf(dy, n)[c]) * rowOf(x, dy.firstRow + n - j)[c];
      floatRowOf(dw, c)[width - 1 - j] = static_cast<float>(sum);
    }
}

static constexpr NamedKernel entries[] = {{"causal_conv", causalConv},
                                          {"causal_conv_input_gradient", causalConvInputGradient},
                                          {"causal_conv_weight_gradient", causalConvWeightGradient}};
constexpr KernelTable convolutionKernels = entries;

} // namespace mebp::cpu::reference
