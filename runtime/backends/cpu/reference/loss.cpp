// SPDX-License-Identifier: Apache-2.0
//
// logits, p [N,C]: the vocabulary rows [c0, c0 + C); labels, max, sum, target [N,1]; accumulator, dx [N,D]; w [V,D].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <algorithm>
#include <cmath>

namespace mebp::cpu::reference {

static void crossEntropyTile(const Call &call, const Context &) {
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &p = call.results[0];
  const Tensor &max = call.results[1], &sum = call.results[2], &target = call.results[3];
  const Tensor &accumulator = resultOf(call, 4);
  for (int64_t n = 0; n < logits.rows; ++n) {
    const float *in = floatRowOf(logits, n);
    int64_t label = labelOf(labels, n) - logits.firstColumn;
    float before = *floatRowOf(max, n);
    float maximum = std::max(before, *std::max_element(in, in + logits.columns));
    double correction = std::exp(static_cast<double>(before) - maximum);
    double total = correction * *floatRowOf(sum, n);
    if (label >= 0 && label < logits.columns)
      *floatRowOf(target, n) = in[label];
    for (int64_t c = 0; c < logits.columns; ++c) {
      double exponential = c == label ? 0.0 : std::exp(static_cast<double>(in[c]) - maximum);
      total += exponential;
      floatRowOf(p, n)[c] = static_cast<float>(exponential);
    }
    for (int64_t i = 0; i < accumulator.columns; ++i)
      floatRowOf(accumulator, n)[i] *= static_cast<float>(correction);
    *floatRowOf(max, n) = maximum;
    *floatRowOf(sum, n) = static_cast<float>(total);
  }
}

static void crossEntropy(const Call &call, const Context &context) {
  const Tensor &labels = call.operands[0], &max = call.operands[1], &sum = call.operands[2];
  const Tensor &target = call.operands[3], &scale = call.operands[4];
  const Tensor &accumulator = operandOf(call, 6), &w = operandOf(call, 7);
  const Tensor &loss = call.results[0], &dx = resultOf(call, 1);
  auto *weights = reinterpret_cast<float *>(context.workspace);
  double total = 0;
  for (int64_t n = 0; n < labels.rows; ++n) {
    int32_t label = labelOf(labels, n);
    if (label < 0) {
      if (dx.present())
        std::fill_n(floatRowOf(dx, n), dx.columns, 0.0f);
      continue;
    }
    double others = *floatRowOf(sum, n), gap = static_cast<double>(*floatRowOf(max, n)) - *floatRowOf(target, n);
    double z = others + std::exp(-gap);
    total += std::log(z) + gap;
    if (!dx.present())
      continue;
    dequantizeRow(w, label, weights);
    for (int64_t i = 0; i < dx.columns; ++i)
      floatRowOf(dx, n)[i] =
          static_cast<float>(*scale.f32() * (floatRowOf(accumulator, n)[i] - others * weights[i]) / z);
  }
  *loss.f32() += static_cast<float>(*scale.f32() * total);
}

const KernelTable lossKernels = {{"cross_entropy_tile", crossEntropyTile}, {"cross_entropy", crossEntropy}};

} // namespace mebp::cpu::reference
