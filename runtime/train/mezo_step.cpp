// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/mezo_step.h"

#include "runtime/train/tree.h"

namespace mebp {

// Moves there, and stays.
Status MezoStep::lossAlongDirection(const Batches &batches, float distance, double &loss, double &ownLoss) {
  engine.trainables.addDirection(distance);
  TreeSum sum;
  for (uint32_t i = 0; i < batches.count; ++i) {
    double part = 0;
    if (Status status = Engine::takeAgain(engine.lane(), batches, i); !status.ok())
      return status;
    if (Status status = engine.lane().runLoss(engine.objective, part); !status.ok())
      return status;
    sum.add(TreePlace::of(i, batches.count), part);
  }
  loss = ownLoss = sum.whole();
  const mebp_shared_sums *shared = engine.settings.shared_sums;
  const mebp_code code = shared && shared->on_loss ? shared->on_loss(shared->user, &loss) : MEBP_OK;
  return code == MEBP_OK ? Status() : failure(code, "on_loss has failed; nothing has been applied");
}

Status MezoStep::run(const Batches &batches, double &loss, double &squaredNorm) {
  engine.held.gradients = engine.held.sums = false;
  const OptimizerOptions &options = engine.trainables.options;
  auto perturbation = static_cast<float>(options.perturbation);
  double above = 0, below = 0, ownAbove = 0, ownBelow = 0;
  if (Status status = lossAlongDirection(batches, perturbation, above, ownAbove); !status.ok()) {
    engine.trainables.addDirection(-perturbation);
    return status;
  }
  if (Status status = lossAlongDirection(batches, -2 * perturbation, below, ownBelow); !status.ok()) {
    engine.trainables.addDirection(perturbation);
    return status;
  }
  double slope = (above - below) / (2 * options.perturbation);
  auto shift = static_cast<float>(-options.learningRate * slope);
  auto kept = static_cast<float>(1 - options.learningRate * options.weightDecay);
  if (kept == 1) {
    engine.trainables.addDirection(perturbation + shift);
  } else {
    engine.trainables.addDirection(perturbation);
    engine.trainables.scale(kept);
    engine.trainables.addDirection(shift);
  }
  loss = (ownAbove + ownBelow) / 2;
  squaredNorm = slope * slope;
  return Status();
}

} // namespace mebp
