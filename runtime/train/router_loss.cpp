// SPDX-License-Identifier: Apache-2.0
//
// The loss of routers (mebpc --router-aux-loss-coef): experts that are used alike cost least (Fedus et al., Switch
// Transformers, section 2.2; as transformers' load_balancing_loss_func has it, over all layers at once).
//
// Terms, of an expert and of all layers together: its counts are the tokens that were sent to it, its scores the sum of
// its probabilities over tokens; rows are the tokens that count, once for each layer.
// 1. Each block's forward has left its scores and counts in a place of its own.
// 2. loss = experts x sum(counts x scores) / rows^2.
// 3. The backward of each block takes dloss/dscores = experts x counts / rows^2, which is the same for all of them. So
//    no backward may run before the last forward, as it is anyway.
#include <algorithm>

#include "runtime/train/finite.h"
#include "runtime/train/lane.h"

namespace mebp {

Status Lane::addRouterLoss(double share, double &loss) {
  float *costs = batch.expertCosts();
  if (!costs)
    return checkFinite("loss", loss);
  const uint64_t experts = batch.shape.experts;
  auto sumOf = [&](auto values, uint64_t expert) {
    double sum = 0;
    for (uint32_t block : routed)
      sum += (batch.*values)(block)[expert];
    return sum;
  };
  double rows = 0;
  for (uint64_t row = 0; row < live.rows(); ++row)
    rows += batch.counted()[row];
  rows *= static_cast<double>(routed.size());
  const double factor = share * model->router_aux_loss_coef() * static_cast<double>(experts) / (rows * rows);
  for (uint64_t expert = 0; expert < experts; ++expert) {
    const double cost = factor * sumOf(&BatchMemory::expertCounts, expert);
    costs[expert] = static_cast<float>(cost);
    loss += cost * sumOf(&BatchMemory::expertScores, expert);
  }
  return checkFinite("loss", loss);
}

} // namespace mebp
