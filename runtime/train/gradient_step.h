// SPDX-License-Identifier: Apache-2.0
//
// A step by the gradient: forwards that leave a checkpoint a block, the objective, backwards in reverse.
//
// 1. Each micro-batch runs forward, then the head's objective, then the backward of each block (`runBatches`).
// 2. A gradient that is complete goes to a sink. It is applied at once; or kept, so that all are clipped together or
//    summed over micro-batches; or only its norm is, and a second pass applies it clipped.
// 3. What was kept is clipped and applied (`applyKept`).
// What is to become of gradients before they are applied, as a reduction over machines, would be a sink before these.
// Nothing here allocates, but for the message of a refusal.
#pragma once

#include <vector>

#include "runtime/train/engine.h"
#include "runtime/train/subspace_search.h"

namespace mebp {

class GradientStep {
public:
  GradientStep(Engine &engine, SubspaceSearch &search) : engine(engine), search(search) {}
  void create();

  // Of batches that have been taken: their loss, and the square of the gradient's norm.
  Status run(const Batches &batches, double &loss, double &squaredNorm);
  // Leaves the gradients where they are, for the caller.
  Status keep(const Batches &batches, double &loss);
  // Clips as torch's clip_grad_norm_ does, in place. Nothing is updated before the whole gradient is known to be
  // finite.
  Status applyKept(double &squaredNorm);

private:
  Status runSample(Lane &own, const Batches &batches, uint32_t index, GradientSink &applied, bool isLast,
                   bool refreshes, double &loss);
  // Of what is kept: the sums of sequences, and where the last micro-batch had no label.
  Status offerRest();
  Status squareKept(double &squaredNorm);
  Status runBatches(const Batches &batches, GradientSink &sink, bool refreshes, double &loss);
  Status runTwice(const Batches &batches, double &loss, double &squaredNorm);

  Engine &engine;
  SubspaceSearch &search;
  Dropout dropout;             // of the step that runs; off where gradients are the caller's
  std::vector<double> tiles;   // of all gradients, where the caller is told of their norm
  std::vector<double> squares; // of each trainable's gradient, where it is computed twice or offered
};

} // namespace mebp
