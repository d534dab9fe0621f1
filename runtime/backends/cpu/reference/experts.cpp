// SPDX-License-Identifier: Apache-2.0
//
// Products with the weights of each slot's expert. ids, weights [N,J]; x, dx [N,J·K] or [N,K], w [E·O,K] or [O,K·E],
// y [N,J·O].
#include "runtime/backends/cpu/kernel/experts.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <algorithm>

namespace mebp::cpu::reference {

static void expertLinear(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &addend = operandOf(call, 3), &bias = operandOf(call, 4);
  const Tensor &y = call.results[0];
  const int64_t count = call.operands[2].columns, outputs = y.columns / count;
  const ExpertLayout layout(w, outputs, x.columns / count);
  const Slots slots(call.operands[2], layout.experts);
  auto *weights = reinterpret_cast<float *>(context.workspace);
  for (int64_t slot = 0; slot < slots.all(); ++slot) {
    const int64_t n = slot / count, j = slot % count, expert = slots.expertAt(n, j);
    const Row from = slotOf(x, n, j, layout.inputs), to = slotOf(y, n, j, outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      if (expert >= 0)
        dequantizeRow(w, layout.row(expert, o), weights);
      for (int64_t k = 0; k < layout.inputs && expert >= 0; ++k)
        sum += static_cast<double>(from[k]) * weights[layout.column(expert, k)];
      float rest = addend.present() ? rowOf(addend, n)[j * outputs + o] : 0.0f, shift = 0;
      if (bias.present() && expert >= 0)
        dequantize(bias, 0, expert * outputs + o, 1, &shift);
      to.set(o, static_cast<float>(call.attributes.alpha * sum + (rest + shift)));
    }
  }
}

// Of the slots of a token, one after the other, into columns of its own or into those of all.
static void expertLinearInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1], &addend = operandOf(call, 3), &dx = call.results[0];
  const int64_t count = call.operands[2].columns, outputs = dy.columns / count;
  const ExpertLayout layout(w, outputs, dx.columns / count);
  const int64_t inputs = layout.inputs;
  const Slots slots(call.operands[2], layout.experts);
  auto *weights = reinterpret_cast<float *>(context.workspace);
  auto *sums = reinterpret_cast<double *>(context.workspace + (w.columns + 1) / 2 * 2 * sizeof(float));
  for (int64_t slot = 0; slot < slots.all(); ++slot) {
    const int64_t n = slot / count, j = slot % count, expert = slots.expertAt(n, j);
    const bool shared = dx.columns == inputs, begins = !shared || j == 0;
    if (begins)
      std::fill_n(sums, inputs, 0.0);
    for (int64_t o = 0; o < outputs && expert >= 0; ++o) {
      const double factor = slotOf(dy, n, j, outputs)[o];
      dequantizeRow(w, layout.row(expert, o), weights);
      for (int64_t k = 0; k < inputs; ++k)
        sums[k] += factor * weights[layout.column(expert, k)];
    }
    if (shared && j + 1 < count)
      continue;
    for (int64_t k = 0; k < inputs; ++k) {
      const double rest = addend.present() ? slotOf(addend, n, j, inputs)[k] : 0.0f;
      slotOf(dx, n, j, inputs).set(k, static_cast<float>(call.attributes.alpha * sums[k] + rest));
    }
  }
}

static void expertLinearWeightGradient(const Call &call, const Context &) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &dw = call.results[0];
  const int64_t count = call.operands[2].columns, outputs = dy.columns / count;
  const ExpertLayout layout(dw, outputs, x.columns / count);
  const Slots slots(call.operands[2], layout.experts);
  for (int64_t expert = 0; expert < layout.experts; ++expert)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t k = 0; k < layout.inputs; ++k) {
        double sum = 0;
        for (int64_t slot = 0; slot < slots.all(); ++slot) {
          const int64_t n = slot / count, j = slot % count;
          if (slots.expertAt(n, j) == expert)
            sum += static_cast<double>(slotOf(dy, n, j, outputs)[o]) * slotOf(x, n, j, layout.inputs)[k];
        }
        float &out = floatRowOf(dw, layout.row(expert, o))[layout.column(expert, k)];
        const double before = operandOf(call, 3).present() ? out : 0.0f;
        out = static_cast<float>(call.attributes.alpha * sum + before);
      }
}

static void expertSum(const Call &call, const Context &) {
  const Tensor &y = call.operands[0], &weights = call.operands[1], &out = call.results[0];
  for (int64_t n = 0; n < out.rows; ++n)
    for (int64_t i = 0; i < out.columns; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < weights.columns; ++j)
        sum += static_cast<double>(floatRowOf(weights, n)[j]) * rowOf(y, n)[j * out.columns + i];
      rowOf(out, n).set(i, static_cast<float>(sum));
    }
}

static void expertSumGradient(const Call &call, const Context &) {
  const Tensor &y = call.operands[0], &weights = call.operands[1], &dout = call.operands[2];
  const Tensor &dy = call.results[0], &dweights = call.results[1];
  for (int64_t n = 0; n < dout.rows; ++n)
    for (int64_t j = 0; j < weights.columns; ++j) {
      double sum = 0;
      const float weight = floatRowOf(weights, n)[j];
      for (int64_t i = 0; i < dout.columns; ++i) {
        const int64_t column = j * dout.columns + i;
        sum += static_cast<double>(rowOf(dout, n)[i]) * rowOf(y, n)[column];
        rowOf(dy, n).set(column, weight * rowOf(dout, n)[i]);
      }
      floatRowOf(dweights, n)[j] = static_cast<float>(sum);
    }
}

constexpr NamedKernel entries[] = {{"expert_linear", expertLinear},
                                   {"expert_linear_input_gradient", expertLinearInputGradient},
                                   {"expert_linear_shared_gradient", expertLinearInputGradient},
                                   {"expert_linear_weight_gradient", expertLinearWeightGradient},
                                   {"expert_sum", expertSum},
                                   {"expert_sum_gradient", expertSumGradient}};
constexpr KernelTable expertKernels = entries;

} // namespace mebp::cpu::reference
