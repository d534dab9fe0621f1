// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <string_view>

namespace mebp {

static const Optimizer *const all[] = {&adamw, &sgd, &lion, &adamw8bit, &galore, &qgalore, &mezo};

const Optimizer *findOptimizer(int number) {
  const format::OptimizerTraits *traits = format::findOptimizer(number);
  for (const Optimizer *optimizer : all)
    if (traits && std::string_view(optimizer->name) == traits->name)
      return optimizer;
  return nullptr;
}

// In one chain, which waits for each addition before the next, the matrices of a small model take as long as a block.
static double squareOf(const float *gradient, uint64_t count) {
  constexpr uint64_t chains = 8;
  double sums[chains] = {};
  uint64_t i = 0;
  for (; i + chains <= count; i += chains)
    for (uint64_t chain = 0; chain < chains; ++chain)
      sums[chain] += static_cast<double>(gradient[i + chain]) * gradient[i + chain];
  for (; i < count; ++i)
    sums[i % chains] += static_cast<double>(gradient[i]) * gradient[i];
  double sum = 0;
  for (double part : sums)
    sum += part;
  return sum;
}

double squareOf(Workers *workers, const float *gradient, uint64_t count, uint64_t tile, double *tiles) {
  const uint64_t tasks = (count + tile - 1) / tile;
  forEach(workers, tasks,
          [&](uint64_t task) { tiles[task] = squareOf(gradient + task * tile, std::min(count - task * tile, tile)); });
  double sum = 0;
  for (uint64_t task = 0; task < tasks; ++task)
    sum += tiles[task];
  return sum;
}

double squareOf(Workers *workers, const float *gradient, uint64_t count) {
  double tiles[format::mostNormTiles];
  return squareOf(workers, gradient, count, format::normTile(count), tiles);
}

} // namespace mebp
