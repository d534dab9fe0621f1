// SPDX-License-Identifier: Apache-2.0
//
// x, y [N,F], F a multiple of head_dim; starts [N,1]; frequencies [f], 2 f <= head_dim.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/reference/kernels.h"

#include <cmath>

namespace mebp::cpu::reference {

static void rope(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  const Attributes &attributes = call.attributes;
  int64_t count = attributes.frequencyCount;
  for (int64_t n = 0; n < x.rows; ++n)
    for (int64_t head = 0; head < x.columns; head += attributes.headDim) {
      const Row in = rowOf(x, n) + head, out = rowOf(y, n) + head;
      auto position = static_cast<float>(placeOf(x, n, context).position - startOf(operandOf(call, 1), n));
      for (int64_t i = 0; i < count; ++i) {
        int64_t a = attributes.interleaved ? 2 * i : i, b = attributes.interleaved ? 2 * i + 1 : i + count;
        // The f32 product that models were trained with; from there on in double.
        auto angle = static_cast<double>((attributes.inverse ? -position : position) * attributes.frequencies[i]);
        double first = in[a], second = in[b];
        double cosine = attributes.scale * std::cos(angle), sine = attributes.scale * std::sin(angle);
        out.set(a, static_cast<float>(first * cosine - second * sine));
        out.set(b, static_cast<float>(second * cosine + first * sine));
      }
      copyRow(in + 2 * count, out + 2 * count, attributes.headDim - 2 * count);
    }
}

constexpr NamedKernel entries[] = {{"rope", rope}};
constexpr KernelTable ropeKernels = entries;

} // namespace mebp::cpu::reference
