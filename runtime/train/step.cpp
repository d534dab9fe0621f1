// SPDX-License-Identifier: Apache-2.0
//
// What happens in a step, in its order. Nothing here allocates, but for the message of a refusal.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/backends/backends.h"
#include "runtime/train/finite.h"
#include "runtime/train/serve.h"
#include "runtime/train/session.h"

namespace mebp {

Status Session::checkRuns() const {
  if (owner->content().has_split() && (!passing() || isServed()))
    return noServer(owner->content());
  if (!settings.generate_only)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with generate_only, so it has no room for a step");
}

Status Session::take(const Tokens &tokens) {
  isOpen = false;
  Status status = checkRuns();
  return status.ok() ? lane().take(tokens) : status;
}

// Every micro-batch is checked, and all labels are counted, before anything runs. One alone stays where it is; several
// are taken once more, each before it runs.
Status Session::takeBatches(const Batches &batches, const Objective &of, uint64_t &allLabels) {
  allLabels = 0;
  objective = of;
  for (uint32_t i = 0; i < batches.count; ++i) {
    if (Status status = take(batches[i]); !status.ok())
      return batches.count == 1 ? status : status.in("micro-batch " + std::to_string(i));
    allLabels += lane().labels;
  }
  if (allLabels == 0)
    return failure(MEBP_INVALID_ARGUMENT,
                   "no label counts: all are -100, or stand at a row's first position, which nothing predicts");
  objective.coefficient = static_cast<float>(-1.0 / static_cast<double>(allLabels));
  objective.share = 1.0 / batches.count;
  return Status();
}

Status Session::takeAgain(Lane &taking, const Batches &batches, uint32_t index) {
  return batches.count == 1 ? Status() : taking.take(batches[index]);
}

// From the head on, in the order of those that add something: one without labels does not.
Status Session::runSample(Lane &own, const Batches &batches, uint32_t index, GradientSink &sink, bool refreshes,
                          double &loss) {
  if (Status status = takeAgain(own, batches, index); !status.ok() || own.labels == 0)
    return status;
  own.place = flight.lineUp();
  if (Status status = own.runForwardForBackward(); !status.ok())
    return status;
  const uint32_t head = own.blocks.head();
  if (Status status = flight.enter(head, own.place); !status.ok())
    return status;
  double part = 0;
  if (Status status = own.runObjective(objective, part); !status.ok())
    return status;
  loss += part;
  if (Status status = own.gradients.deliver(head, sink); !status.ok())
    return status;
  flight.leave(head);
  auto atBlock = [&](uint32_t block) {
    auto multiply = [&](std::string_view program) { return own.blocks.thinProduct(block, program, own.live); };
    return refreshes ? subspaces.refresh(block, std::ref(multiply), trainables) : Status();
  };
  return own.runBackward(&sink, std::ref(atBlock));
}

// The objective over all micro-batches, and its gradient.
Status Session::runBatches(const Batches &batches, GradientSink &sink, bool refreshes, double &loss) {
  gradientsKept = hasSums = false;
  if (refreshes && batches.count > 1)
    if (Status status = findSubspaces(batches); !status.ok())
      return status;
  lane().gradients.clearSums();
  loss = 0;
  auto runOne = [&](uint32_t number, uint32_t index) {
    return runSample(lanes[number], batches, index, sink, refreshes && batches.count == 1, loss);
  };
  return flight.run(batches.count, std::ref(runOne));
}

namespace {

// The factor that torch's clip_grad_norm_ multiplies with, or 1.
float clipFactor(double clip, double squaredNorm) {
  double factor = clip / (std::sqrt(squaredNorm) + 1e-6);
  return clip > 0 && factor < 1 ? static_cast<float>(factor) : 1;
}
void multiply(float *gradient, uint64_t elements, float factor) {
  for (uint64_t element = 0; factor != 1 && element < elements; ++element)
    gradient[element] *= factor;
}

// Applies each gradient at once, clipped by a factor that is known already.
class ApplySink final : public GradientSink {
public:
  ApplySink(Trainables &trainables, Cancellation &cancellation, float factor = 1)
      : trainables(trainables), cancellation(cancellation), factor(factor) {}
  Status take(uint32_t trainable, float *gradient) override {
    cancellation.heed(false); // from here on the step would end half applied
    squaredNorm += trainables.squareOf(gradient, trainables.gradientElements(trainable));
    multiply(gradient, trainables.gradientElements(trainable), factor);
    return trainables.update(trainable, gradient);
  }

  double squaredNorm = 0; // of all so far

private:
  Trainables &trainables;
  Cancellation &cancellation;
  float factor;
};

// Leaves of each gradient its square alone.
class NormSink final : public GradientSink {
public:
  NormSink(const Trainables &trainables, std::vector<double> &squares) : trainables(trainables), squares(squares) {}
  Status take(uint32_t trainable, float *gradient) override {
    squares[trainable] = trainables.squareOf(gradient, trainables.gradientElements(trainable));
    return Status();
  }

private:
  const Trainables &trainables;
  std::vector<double> &squares;
};

} // namespace

// Clips as torch's clip_grad_norm_ does, in place. Nothing is updated before the whole gradient is known to be finite.
Status Session::applyKept(double &squaredNorm) {
  for (uint32_t i = 0; i < trainables.count(); ++i)
    squaredNorm += trainables.squareOf(lane().gradients.of(i), trainables.gradientElements(i));
  double norm = std::sqrt(squaredNorm);
  if (Status status = checkFinite("gradient's norm", norm); !status.ok())
    return status;
  const float factor = clipFactor(settings.clip, squaredNorm);
  for (uint32_t i = 0; i < trainables.count(); ++i) {
    float *gradient = lane().gradients.of(i);
    multiply(gradient, trainables.gradientElements(i), factor);
    if (Status status = trainables.update(i, gradient); !status.ok())
      return status;
  }
  return Status();
}

// Computes all gradients twice instead of keeping them. Squares are added up in applyKept's order, for its bits.
Status Session::stepClippedTwice(const Batches &batches, double &loss, double &squaredNorm) {
  std::fill(squares.begin(), squares.end(), 0.0);
  NormSink norm(trainables, squares);
  if (Status status = runBatches(batches, norm, trainables.isRefreshDue(), loss); !status.ok())
    return status;
  for (double square : squares)
    squaredNorm += square;
  if (Status status = checkFinite("gradient's norm", std::sqrt(squaredNorm)); !status.ok())
    return status;
  // Gradients lay where the head finds its rows; without accumulation there is one batch.
  if (Status status = take(batches[0]); !status.ok())
    return status;
  ApplySink apply(trainables, cancellation, clipFactor(settings.clip, squaredNorm));
  return runBatches(batches, apply, false, loss);
}

// What is to become of gradients before they are applied, as a reduction over machines, would be a sink before these.
Status Session::stepByGradient(const Batches &batches, double &loss, double &squaredNorm) {
  if (lane().gradients.areKept()) {
    KeepSink keep;
    if (Status status = runBatches(batches, keep, trainables.isRefreshDue(), loss); !status.ok())
      return status;
    gradientsKept = settings.return_gradients;
    return applyKept(squaredNorm);
  }
  if (settings.clip_recompute)
    return stepClippedTwice(batches, loss, squaredNorm);
  ApplySink apply(trainables, cancellation);
  Status status = runBatches(batches, apply, trainables.isRefreshDue(), loss);
  squaredNorm = apply.squaredNorm;
  return status;
}

Status Session::checkTrains() const {
  if (Status status = checkRuns(); !status.ok())
    return status;
  if (!settings.forward_only)
    return trainables.checkWhole();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with forward_only, so it cannot train");
}

// Of a device that failed before anything was applied.
static Status undone(const Status &status) {
  return Status(status.code(), status.message() + "; the step did not happen, and the session is as it was before");
}

// Nothing that a step touches is given back, so the memory at its end is the most that it had.
void Session::report(const Begun &begun, double squaredNorm, mebp_step_result &out) {
  peak.sample();
  out.grad_norm = std::sqrt(squaredNorm);
  out.peak_bytes = peak.bytes();
  out.written_bytes = spill.writtenBytes() - begun.writtenBytes;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun.time).count();
}

Status Session::step(const Batches &batches, const Objective &of, mebp_step_result &out) {
  const Begun begun = beginMeasuring();
  uint64_t allLabels = 0;
  if (Status status = checkTrains(); !status.ok())
    return status;
  if (batches.count == 0)
    return failure(MEBP_INVALID_ARGUMENT, "a step needs at least one micro-batch");
  if (batches.count > 1 && !settings.accumulate)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a step of %u micro-batches needs room for their sum; create the session with accumulate",
                   batches.count);
  if (Status status = takeBatches(batches, of, allLabels); !status.ok())
    return status;
  double squaredNorm = 0;
  trainables.beginStep();
  Status status = settings.optimizer == MEBP_MEZO ? stepAlongDirection(batches, out.loss, squaredNorm)
                                                  : stepByGradient(batches, out.loss, squaredNorm);
  const bool isUndone =
      status.code() == MEBP_IO && findBackend(settings.backend)->isForeign && lane().gradients.areKept();
  if (status = trainables.endStep(status); !status.ok())
    return isUndone && trainables.checkWhole().ok() ? undone(status) : status;
  report(begun, squaredNorm, out);
  out.tokens = allLabels;
  return Status();
}

Status Session::loss(const Tokens &tokens, double &out) {
  uint64_t allLabels = 0;
  if (Status status = takeBatches(Batches(tokens), {}, allLabels); !status.ok())
    return status;
  Status status = lane().runLoss(objective, out);
  peak.sample();
  return status;
}

Status Session::lossAndGradients(const Tokens &tokens, const Objective &of, double &out) {
  uint64_t allLabels = 0;
  if (!settings.return_gradients || settings.forward_only)
    return failure(MEBP_INVALID_ARGUMENT,
                   "the session was created without return_gradients, so it has no room for them");
  if (Status status = takeBatches(Batches(tokens), of, allLabels); !status.ok())
    return status;
  KeepSink keep;
  if (Status status = runBatches(Batches(tokens), keep, trainables.isRefreshDue(), out); !status.ok())
    return status;
  gradientsKept = true;
  peak.sample();
  return Status();
}

Status Session::applyGradients(const float *const *given) {
  if (Status status = checkTrains(); !status.ok())
    return status;
  double squaredNorm = 0;
  for (uint32_t i = 0; i < trainables.count(); ++i)
    squaredNorm += trainables.squareOf(given[i], trainables.elements(i));
  if (Status status = checkFinite("gradient's norm", std::sqrt(squaredNorm)); !status.ok())
    return status;
  trainables.beginStep();
  Status status;
  for (uint32_t i = 0; status.ok() && i < trainables.count(); ++i)
    status = trainables.updateByWhole(i, given[i]);
  return trainables.endStep(status);
}

} // namespace mebp
