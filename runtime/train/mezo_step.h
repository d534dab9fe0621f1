// SPDX-License-Identifier: Apache-2.0
//
// A step of MeZO (Malladi et al., 2023, algorithm 1): SGD along a random direction, whose slope two losses tell.
//
// Terms: z has a standard normal number for each element of the trainables. It is drawn again, from the seed and the
// step's number, whenever it is needed, so it takes no memory; eps is the perturbation.
// 1. The loss at parameters + eps z, then at parameters - eps z, both in place. Sessions that share the step tell one
//    another these two alone.
// 2. slope = (the one - the other) / 2 eps.
// 3. parameters + eps z again, which are those from before but for rounding, and an SGD update by slope z.
#pragma once

#include "runtime/train/engine.h"

namespace mebp {

class MezoStep {
public:
  explicit MezoStep(Engine &engine) : engine(engine) {}

  // Of batches that have been taken: the mean of their two losses, and the square of the slope.
  Status run(const Batches &batches, double &loss, double &squaredNorm);

private:
  // Over all sessions that share the step.
  Status lossAlongDirection(const Batches &batches, float distance, double &loss, double &ownLoss);

  Engine &engine;
};

} // namespace mebp
