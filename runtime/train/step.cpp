// SPDX-License-Identifier: Apache-2.0
//
// What happens in a step, in its order. Nothing here allocates, but for the message of a refusal.
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/backends/backends.h"
#include "runtime/train/finite.h"
#include "runtime/train/session.h"

namespace mebp {

Status Session::checkRuns() const {
  if (!settings.generate_only)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with generate_only, so it has no room for a step");
}

// By value: the caller's own may change meanwhile.
Status Session::take(Tokens tokens) {
  if (Status status = checkRuns(); !status.ok())
    return status;
  live = {tokens.batch, tokens.sequence};
  return takeBatch(owner->model(), tokens, batch, labels);
}

// Every micro-batch is checked, and all labels are counted, before anything runs. One alone stays where it is; several
// are taken once more, each before it runs.
Status Session::takeBatches(const Tokens *batches, uint32_t count, uint64_t &allLabels) {
  allLabels = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (Status status = take(batches[i]); !status.ok())
      return count == 1 ? status : status.in("micro-batch " + std::to_string(i));
    allLabels += labels;
  }
  if (allLabels == 0)
    return failure(MEBP_INVALID_ARGUMENT,
                   "no label counts: all are -100, or stand at a row's first position, which nothing predicts");
  coefficient = static_cast<float>(-1.0 / static_cast<double>(allLabels));
  return Status();
}

Status Session::takeAgain(const Tokens *batches, uint32_t count, uint32_t index) {
  return count == 1 ? Status() : take(batches[index]);
}

Status Session::runForward() {
  for (uint32_t i = 0; i < blocks.head(); ++i)
    if (Status status = blocks.forward(i, live); !status.ok())
      return status;
  return Status();
}

Status Session::runForwardForBackward() {
  for (uint32_t i = 0; i < blocks.head(); ++i) {
    if (Status status = blocks.forward(i, live); !status.ok())
      return status;
    if (!checkpoints.isSpilled(i))
      continue;
    if (Status status = blocks.wait(); !status.ok())
      return status;
    if (Status status = checkpoints.keepOutput(i, live.rows()); !status.ok())
      return status;
  }
  return Status();
}

// The head's gradients are there since the objective ran.
Status Session::runBackward(GradientSink &sink) {
  if (Status status = gradients.deliver(blocks.head(), sink); !status.ok())
    return status;
  for (uint32_t i = blocks.head(); i-- > 0;) {
    if (!blocks.has(i, format::backwardProgram))
      break; // nothing before it is trained
    // None of the lost ones has been updated yet: the backward is behind them.
    BlockRange lost = checkpoints.lostBefore(i);
    for (uint32_t again = lost.begin; again < lost.end; ++again)
      if (Status status = blocks.forward(again, live); !status.ok())
        return status;
    if (Status status = blocks.backward(i, live); !status.ok())
      return status;
    if (!gradients.has(i))
      continue;
    if (Status status = blocks.wait(); !status.ok())
      return status;
    if (Status status = gradients.deliver(i, sink); !status.ok())
      return status;
  }
  return blocks.wait();
}

// The objective over all micro-batches, and its gradient.
Status Session::runBatches(const Tokens *batches, uint32_t count, GradientSink &sink, double &loss) {
  gradientsKept = false;
  gradients.clearSums();
  loss = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (Status status = takeAgain(batches, count, i); !status.ok())
      return status;
    if (labels == 0)
      continue; // adds nothing
    if (Status status = runForwardForBackward(); !status.ok())
      return status;
    double part;
    if (Status status = runObjective(part); !status.ok())
      return status;
    loss += part;
    if (Status status = runBackward(sink); !status.ok())
      return status;
  }
  return Status();
}

namespace {

// Applies each gradient at once.
class ApplySink final : public GradientSink {
public:
  ApplySink(Trainables &trainables, Cancellation &cancellation) : trainables(trainables), cancellation(cancellation) {}
  Status take(uint32_t trainable, const float *gradient) override {
    cancellation.heed(false); // from here on the step would end half applied
    squaredNorm += squareOf(gradient, trainables.elements(trainable));
    return trainables.update(trainable, gradient);
  }

  double squaredNorm = 0; // of all so far

private:
  Trainables &trainables;
  Cancellation &cancellation;
};

// Leaves each gradient, or sum over micro-batches, where it is until all are there.
class KeepSink final : public GradientSink {
public:
  Status take(uint32_t, const float *) override { return Status(); }
};

} // namespace

// Clips as torch's clip_grad_norm_ does, in place. Nothing is updated before the whole gradient is known to be finite.
Status Session::applyKept(double &squaredNorm) {
  for (uint32_t i = 0; i < trainables.count(); ++i)
    squaredNorm += squareOf(gradients.of(i), trainables.elements(i));
  double norm = std::sqrt(squaredNorm);
  if (Status status = checkFinite("gradient's norm", norm); !status.ok())
    return status;
  double factor = settings.clip / (norm + 1e-6);
  for (uint32_t i = 0; i < trainables.count(); ++i) {
    float *gradient = gradients.of(i);
    if (settings.clip > 0 && factor < 1)
      for (uint64_t element = 0; element < trainables.elements(i); ++element)
        gradient[element] *= static_cast<float>(factor);
    if (Status status = trainables.update(i, gradient); !status.ok())
      return status;
  }
  return Status();
}

// What is to become of gradients before they are applied, as a reduction over machines, would be a sink before these.
Status Session::stepByGradient(const Tokens *batches, uint32_t count, double &loss, double &squaredNorm) {
  if (gradients.areKept()) {
    KeepSink keep;
    if (Status status = runBatches(batches, count, keep, loss); !status.ok())
      return status;
    gradientsKept = settings.return_gradients;
    return applyKept(squaredNorm);
  }
  ApplySink apply(trainables, cancellation);
  Status status = runBatches(batches, count, apply, loss);
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

Status Session::step(const Tokens *batches, uint32_t count, const Objective &of, mebp_step_result &out) {
  auto begin = std::chrono::steady_clock::now();
  uint64_t writtenBefore = spill.writtenBytes(), allLabels = 0;
  if (Status status = checkTrains(); !status.ok())
    return status;
  if (count == 0)
    return failure(MEBP_INVALID_ARGUMENT, "a step needs at least one micro-batch");
  if (count > 1 && !settings.accumulate)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a step of %u micro-batches needs room for their sum; create the session with accumulate", count);
  if (Status status = takeBatches(batches, count, allLabels); !status.ok())
    return status;
  objective = of;
  double squaredNorm = 0;
  trainables.beginStep();
  Status status = settings.optimizer == MEBP_MEZO ? stepAlongDirection(batches, count, out.loss, squaredNorm)
                                                  : stepByGradient(batches, count, out.loss, squaredNorm);
  const bool isUndone = status.code() == MEBP_IO && findBackend(settings.backend)->isForeign && gradients.areKept();
  if (status = trainables.endStep(status); !status.ok())
    return isUndone && trainables.checkWhole().ok() ? undone(status) : status;
  // Nothing that a step touches is given back, so the memory at its end is the most that it had.
  peak.sample();
  out.grad_norm = std::sqrt(squaredNorm);
  out.tokens = allLabels;
  out.peak_bytes = peak.bytes();
  out.written_bytes = spill.writtenBytes() - writtenBefore;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Status();
}

Status Session::loss(const Tokens &tokens, double &out) {
  uint64_t allLabels = 0;
  if (Status status = takeBatches(&tokens, 1, allLabels); !status.ok())
    return status;
  objective = {};
  Status status = runLoss(out);
  peak.sample();
  return status;
}

Status Session::lossAndGradients(const Tokens &tokens, const Objective &of, double &out) {
  uint64_t allLabels = 0;
  if (!settings.return_gradients || settings.forward_only)
    return failure(MEBP_INVALID_ARGUMENT,
                   "the session was created without return_gradients, so it has no room for them");
  if (Status status = takeBatches(&tokens, 1, allLabels); !status.ok())
    return status;
  objective = of;
  KeepSink keep;
  if (Status status = runBatches(&tokens, 1, keep, out); !status.ok())
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
    squaredNorm += squareOf(given[i], trainables.elements(i));
  if (Status status = checkFinite("gradient's norm", std::sqrt(squaredNorm)); !status.ok())
    return status;
  trainables.beginStep();
  Status status;
  for (uint32_t i = 0; status.ok() && i < trainables.count(); ++i)
    status = trainables.update(i, given[i]);
  return trainables.endStep(status);
}

} // namespace mebp
