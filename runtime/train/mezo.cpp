// SPDX-License-Identifier: Apache-2.0
//
// A step of MeZO (Malladi et al., 2023, algorithm 1): SGD along a random direction, whose slope two losses tell.
//
// Terms: z has a standard normal number for each element of the trainables. It is drawn anew, from the seed and the
// step's number, whenever it is needed, so it takes no memory; eps is the perturbation.
// 1. The loss at parameters + eps z, then at parameters - eps z, both in place.
// 2. slope = (the one - the other) / 2 eps.
// 3. parameters + eps z again, which are those from before but for rounding, and an SGD update by slope z.
#include "format/random.h"
#include "runtime/optim/direction.h"
#include "runtime/train/session.h"

namespace mebp {

void Session::addDirection(float factor) {
  uint64_t seed = format::randomBits(owner->model().lora().seed(), 0, stepsDone);
  for (uint32_t i = 0; i < trainableCount(); ++i)
    mebp::addDirection(parameters(i), elements(i), seed, i, factor);
}

// Moves there, and stays.
Status Session::lossAlongDirection(const Tokens *batches, uint32_t count, float distance, double &loss) {
  addDirection(distance);
  loss = 0;
  for (uint32_t i = 0; i < count; ++i) {
    float part = 0;
    if (Status status = runLoss(batches[i], part); !status.ok())
      return status;
    loss += static_cast<double>(part);
  }
  return Status();
}

Status Session::stepAlongDirection(const Tokens *batches, uint32_t count, float &loss) {
  gradientsKept = false;
  auto perturbation = static_cast<float>(optimizerOptions.epsilon);
  double above = 0, below = 0;
  if (Status status = lossAlongDirection(batches, count, perturbation, above); !status.ok()) {
    addDirection(-perturbation);
    return status;
  }
  if (Status status = lossAlongDirection(batches, count, -2 * perturbation, below); !status.ok()) {
    addDirection(perturbation);
    return status;
  }
  double slope = (above - below) / (2 * optimizerOptions.epsilon);
  auto shift = static_cast<float>(-optimizerOptions.learningRate * slope);
  auto kept = static_cast<float>(1 - optimizerOptions.learningRate * optimizerOptions.weightDecay);
  if (kept == 1) {
    addDirection(perturbation + shift);
  } else {
    addDirection(perturbation);
    for (uint32_t i = 0; i < trainableCount(); ++i)
      for (uint64_t element = 0; element < elements(i); ++element)
        parameters(i)[element] *= kept;
    addDirection(shift);
  }
  loss = static_cast<float>((above + below) / 2);
  squaredNorm = slope * slope;
  return Status();
}

} // namespace mebp
