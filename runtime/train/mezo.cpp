// SPDX-License-Identifier: Apache-2.0
//
// A step of MeZO (Malladi et al., 2023, algorithm 1): SGD along a random direction, whose slope two losses tell.
//
// Terms: z has a standard normal number for each element of the trainables. It is drawn again, from the seed and the
// step's number, whenever it is needed, so it takes no memory; eps is the perturbation.
// 1. The loss at parameters + eps z, then at parameters - eps z, both in place.
// 2. slope = (the one - the other) / 2 eps.
// 3. parameters + eps z again, which are those from before but for rounding, and an SGD update by slope z.
#include "runtime/train/session.h"

namespace mebp {

// Moves there, and stays.
Status Session::lossAlongDirection(const Batches &batches, float distance, double &loss) {
  trainables.addDirection(distance);
  loss = 0;
  for (uint32_t i = 0; i < batches.count; ++i) {
    double part = 0;
    if (Status status = takeAgain(lane(), batches, i); !status.ok())
      return status;
    if (Status status = lane().runLoss(objective, part); !status.ok())
      return status;
    loss += part;
  }
  return Status();
}

Status Session::stepAlongDirection(const Batches &batches, double &loss, double &squaredNorm) {
  gradientsKept = hasSums = false;
  const OptimizerOptions &options = trainables.options;
  auto perturbation = static_cast<float>(options.perturbation);
  double above = 0, below = 0;
  if (Status status = lossAlongDirection(batches, perturbation, above); !status.ok()) {
    trainables.addDirection(-perturbation);
    return status;
  }
  if (Status status = lossAlongDirection(batches, -2 * perturbation, below); !status.ok()) {
    trainables.addDirection(perturbation);
    return status;
  }
  double slope = (above - below) / (2 * options.perturbation);
  auto shift = static_cast<float>(-options.learningRate * slope);
  auto kept = static_cast<float>(1 - options.learningRate * options.weightDecay);
  if (kept == 1) {
    trainables.addDirection(perturbation + shift);
  } else {
    trainables.addDirection(perturbation);
    trainables.scale(kept);
    trainables.addDirection(shift);
  }
  loss = (above + below) / 2;
  squaredNorm = slope * slope;
  return Status();
}

} // namespace mebp
