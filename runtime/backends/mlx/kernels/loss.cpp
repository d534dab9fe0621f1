// SPDX-License-Identifier: Apache-2.0
//
// logits, p [N,C]: the vocabulary rows [c0, c0 + C); labels, max, sum, target [N,1]; accumulator, dx [N,D]; w [V,D].
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

static void crossEntropyTile(Call &call) {
  array logits = call.numbers(0), before = call.numbers(2);
  int first = call.results[0].firstColumn, columns = call.results[0].columns;
  array isLabel = mx::equal(call.value(1).data, mx::arange(first, first + columns)), zero = array(0.0f);
  array maximum = mx::maximum(before, mx::max(logits, -1, true)), correction = mx::exp(before - maximum);
  array p = mx::where(isLabel, zero, mx::exp(logits - maximum));
  call.give(0, p);
  call.give(1, maximum);
  call.give(2, correction * call.numbers(3) + mx::sum(p, -1, true));
  array label = mx::sum(mx::where(isLabel, logits, zero), -1, true);
  call.give(3, mx::where(mx::any(isLabel, -1, true), label, call.numbers(4)));
  if (call.wants(4))
    call.give(4, correction * call.numbers(5));
}

static void crossEntropy(Call &call) {
  array labels = call.value(0).data, others = call.numbers(2), zero = array(0.0f);
  array counts = labels >= 0, gap = call.numbers(1) - call.numbers(3), scale = call.numbers(4);
  array z = others + mx::exp(-gap);
  array losses = mx::where(counts, mx::log(z) + gap, zero);
  call.give(0, call.numbers(5) + scale * mx::sum(losses, 0, true));
  if (!call.wants(1))
    return;
  // Whatever row stands for a label that does not count, nothing of it is taken.
  array label = gatherRows(call.value(7), mx::flatten(mx::maximum(labels, array(0))));
  call.give(1, mx::where(counts, scale * (call.numbers(6) - others * label) / z, zero));
}

const KernelTable lossKernels = {{"cross_entropy_tile", crossEntropyTile}, {"cross_entropy", crossEntropy}};

} // namespace mebp::mlx
