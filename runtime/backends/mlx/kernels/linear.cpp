// SPDX-License-Identifier: Apache-2.0
//
// x [N,K], w [M,K], low [N,R], low_weight [M,R] or [R,K], y [N,M].
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

// alpha (x w + low_alpha low low_weight), and what is there of bias and addend; `low` is the number of that operand.
static void multiply(Call &call, bool transposed, size_t low) {
  auto productOf = [&](size_t operand) {
    return product(call.value(operand).data, call.value(operand + 1), transposed, call.routes);
  };
  array sum = productOf(0);
  if (call.has(low))
    sum = sum + call.attributes.lowAlpha * productOf(low);
  sum = call.attributes.alpha * sum;
  for (size_t added = 2; added < low; ++added)
    if (call.has(added))
      sum = sum + call.numbers(added);
  call.give(0, sum);
}

static void linear(Call &call) { multiply(call, true, 4); }
static void linearInputGradient(Call &call) { multiply(call, false, 3); }

static void linearWeightGradient(Call &call) {
  array sum = call.attributes.alpha * product(mx::transpose(call.numbers(0)), call.numbers(1));
  call.give(0, call.has(2) ? sum + call.numbers(2) : sum);
}

constexpr NamedKernel entries[] = {{"linear", linear},
                                   {"linear_input_gradient", linearInputGradient},
                                   {"linear_weight_gradient", linearWeightGradient}};
constexpr KernelTable linearKernels = entries;

} // namespace mebp::mlx
