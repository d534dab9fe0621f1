// SPDX-License-Identifier: Apache-2.0
//
// x [N,K], w [M,K], low [N,R], low_weight [M,R] or [R,K], y [N,M].
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

static void linear(Call &call) {
  array sum = product(call.numbers(0), call.value(1), true);
  if (call.has(4))
    sum = sum + call.attributes.lowAlpha * product(call.numbers(4), call.value(5), true);
  sum = call.attributes.alpha * sum;
  if (call.has(2))
    sum = sum + call.numbers(2);
  if (call.has(3))
    sum = sum + call.numbers(3);
  call.give(0, sum);
}

static void linearInputGradient(Call &call) {
  array sum = product(call.numbers(0), call.value(1), false);
  if (call.has(3))
    sum = sum + call.attributes.lowAlpha * product(call.numbers(3), call.value(4), false);
  sum = call.attributes.alpha * sum;
  if (call.has(2))
    sum = sum + call.numbers(2);
  call.give(0, sum);
}

static void linearWeightGradient(Call &call) {
  array sum = call.attributes.alpha * mx::matmul(mx::transpose(call.numbers(0)), call.numbers(1));
  call.give(0, call.has(2) ? sum + call.numbers(2) : sum);
}

const KernelTable linearKernels = {{"linear", linear},
                                   {"linear_input_gradient", linearInputGradient},
                                   {"linear_weight_gradient", linearWeightGradient}};

} // namespace mebp::mlx
