// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/session.h"

#include <chrono>
#include <cmath>
#include <string>

#include "runtime/backends/backends.h"
#include "runtime/train/finite.h"

namespace mebp {

namespace {

// What of a result each step has, from its beginning on.
class Measured {
public:
  explicit Measured(const Engine &engine) : writtenBefore(engine.spill.writtenBytes()) {}

  // Nothing that a step touches is given back, so the memory at its end is the most that it had.
  void report(const Engine &engine, double squaredNorm, mebp_step_result &out) const {
    engine.peak.sample();
    out.grad_norm = std::sqrt(squaredNorm);
    out.peak_bytes = engine.peak.bytes();
    out.written_bytes = engine.spill.writtenBytes() - writtenBefore;
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

private:
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  uint64_t writtenBefore;
};

// A part of a step by itself would give another slope, or find other subspaces, than its other parts.
Status checkPart(const Engine &engine, const Batches &batches) {
  const mebp_session_options &settings = engine.settings;
  if (batches.part.batches <= batches.count)
    return Status();
  const mebp_shared_sums *sums = settings.shared_sums;
  if (settings.optimizer == MEBP_MEZO && !(sums && sums->on_loss))
    return failure(MEBP_INVALID_ARGUMENT, "sessions that share a step of MeZO sum their losses; create each with "
                                          "on_loss");
  if (engine.trainables.areProjected() && !(sums && sums->on_subspace))
    return failure(MEBP_INVALID_ARGUMENT, "sessions that share a step find their subspaces together; create each with "
                                          "on_subspace");
  return Status();
}

// Of a device that failed before anything was applied.
Status undone(const Status &status) {
  return Status(status.code(), status.message() + "; the step did not happen, and the session is as it was before");
}

} // namespace

Status Session::create(Bundle &opened, const mebp_session_options &options) {
  Status status = engine.create(opened, options);
  if (status.ok())
    gradientStep.create();
  return status;
}

Status Session::countLabels(const Batches &batches, uint64_t &out) {
  for (uint32_t i = 0; i < batches.count; ++i) {
    if (Status status = engine.take(batches[i]); !status.ok())
      return status.in("micro-batch " + std::to_string(i));
    out += engine.lane().labels;
  }
  return Status();
}

Status Session::step(const Batches &batches, const Objective &of, mebp_step_result &out) {
  const Measured measured(engine);
  uint64_t allLabels = 0;
  if (Status status = engine.checkTrains(); !status.ok())
    return status;
  if (batches.count == 0)
    return failure(MEBP_INVALID_ARGUMENT, "a step needs at least one micro-batch");
  if (batches.count > 1 && !engine.settings.accumulate)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a step of %u micro-batches needs room for their sum; create the session with accumulate",
                   batches.count);
  if (engine.settings.tree_batches && batches.count > engine.settings.tree_batches)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a step of %u micro-batches, and tree_batches is %u; create the session with "
                   "more",
                   batches.count, engine.settings.tree_batches);
  if (Status status = checkPart(engine, batches); !status.ok())
    return status;
  if (Status status = engine.takeBatches(batches, of, allLabels); !status.ok())
    return status;
  double squaredNorm = 0;
  engine.trainables.beginStep();
  Status status = engine.settings.optimizer == MEBP_MEZO ? mezoStep.run(batches, out.loss, squaredNorm)
                                                         : gradientStep.run(batches, out.loss, squaredNorm);
  if (Status freed = engine.handed.release(); status.ok())
    status = freed;
  const bool isUndone =
      status.code() == MEBP_IO && findBackend(engine.settings.backend)->isForeign && engine.lane().gradients.areKept();
  if (status = engine.trainables.endStep(status); !status.ok())
    return isUndone && engine.trainables.checkWhole().ok() ? undone(status) : status;
  measured.report(engine, squaredNorm, out);
  out.tokens = allLabels;
  return Status();
}

Status Session::applySums(mebp_step_result &out) {
  const Measured measured(engine);
  double squaredNorm = 0;
  if (Status status = sequences.apply(squaredNorm); !status.ok())
    return status;
  measured.report(engine, squaredNorm, out);
  return Status();
}

Status Session::loss(const Tokens &tokens, double &out) {
  uint64_t allLabels = 0;
  if (Status status = engine.takeBatches(Batches(tokens), {}, allLabels); !status.ok())
    return status;
  Status status = engine.lane().runLoss(engine.objective, out);
  engine.peak.sample();
  return status;
}

Status Session::lossAndGradients(const Tokens &tokens, const Objective &of, double &out) {
  uint64_t allLabels = 0;
  if (!engine.settings.return_gradients || engine.settings.forward_only)
    return failure(MEBP_INVALID_ARGUMENT,
                   "the session was created without return_gradients, so it has no room for them");
  if (Status status = engine.takeBatches(Batches(tokens), of, allLabels); !status.ok())
    return status;
  if (Status status = gradientStep.keep(Batches(tokens), out); !status.ok())
    return status;
  engine.peak.sample();
  return Status();
}

Status Session::applyGradients(const float *const *given) {
  if (Status status = engine.checkTrains(); !status.ok())
    return status;
  Trainables &trainables = engine.trainables;
  double squaredNorm = 0;
  for (uint32_t i = 0; i < trainables.count(); ++i)
    squaredNorm += trainables.owns(i) ? trainables.squareOfWhole(i, given[i]) : 0;
  if (Status status = checkFinite("gradient's norm", std::sqrt(squaredNorm)); !status.ok())
    return status;
  trainables.beginStep();
  Status status;
  for (uint32_t i = 0; status.ok() && i < trainables.count(); ++i)
    status = trainables.updateByWhole(i, given[i]);
  return trainables.endStep(status);
}

} // namespace mebp
