// SPDX-License-Identifier: Apache-2.0
//
// What happens in a step, in its order. Nothing here allocates, but for the message of a refusal.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/backends/backends.h"
#include "runtime/train/finite.h"
#include "runtime/train/serve.h"
#include "runtime/train/session.h"

namespace mebp {

Status Session::checkRuns() const {
  if (owner->content().has_split() && (!exchange || isServed()))
    return noServer(owner->content());
  if (!settings.generate_only)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the session was created with generate_only, so it has no room for a step");
}

// By value: the caller's own may change meanwhile.
Status Session::take(Tokens tokens) {
  if (Status status = checkRuns(); !status.ok())
    return status;
  live = {tokens.batch, tokens.sequence};
  isOpen = false;
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

Status Session::runForward(Rows wanted) {
  if (exchange)
    exchange->select(wanted);
  for (uint32_t i = 0; i < blocks.head(); ++i)
    if (Status status = blocks.forward(i, live); !status.ok())
      return status;
  return Status();
}

Status Session::runForwardForBackward() {
  if (exchange)
    exchange->select(headRows());
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
Status Session::runBackward(GradientSink *sink, const AtBlock &atBlock, uint32_t last) {
  if (sink)
    if (Status status = gradients.deliver(blocks.head(), *sink); !status.ok())
      return status;
  for (uint32_t i = blocks.head(); i-- > 0;) {
    if (!blocks.hasBackward(i))
      break; // nothing before it is trained
    // None of the lost ones has been updated yet: the backward is behind them.
    BlockRange lost = checkpoints.lostBefore(i);
    for (uint32_t again = lost.begin; again < lost.end; ++again)
      if (Status status = blocks.recompute(again, live); !status.ok())
        return status;
    if (Status status = atBlock(i); !status.ok())
      return status;
    if (i == last)
      break;
    if (Status status = blocks.backward(i, live); !status.ok())
      return status;
    if (!sink || !gradients.has(i))
      continue;
    if (Status status = blocks.wait(); !status.ok())
      return status;
    if (Status status = gradients.deliver(i, *sink); !status.ok())
      return status;
  }
  return blocks.wait();
}

// Of one micro-batch, all that comes before its backwards; a loss of zero where it has no labels, and so adds nothing.
Status Session::runToBackward(const Tokens *batches, uint32_t count, uint32_t index, double &loss) {
  loss = 0;
  if (Status status = takeAgain(batches, count, index); !status.ok())
    return status;
  if (labels == 0)
    return Status();
  if (Status status = runForwardForBackward(); !status.ok())
    return status;
  return runObjective(loss);
}

// The objective over all micro-batches, and its gradient.
Status Session::runBatches(const Tokens *batches, uint32_t count, GradientSink &sink, bool refreshes, double &loss) {
  gradientsKept = hasSums = false;
  if (refreshes && count > 1)
    if (Status status = findSubspaces(batches, count); !status.ok())
      return status;
  auto atBlock = [&](uint32_t block) {
    return refreshes && count == 1 ? subspaces.refresh(block, blocks, live, trainables) : Status();
  };
  gradients.clearSums();
  loss = 0;
  for (uint32_t i = 0; i < count; ++i) {
    double part;
    if (Status status = runToBackward(batches, count, i, part); !status.ok())
      return status;
    if (labels == 0)
      continue; // adds nothing
    loss += part;
    if (Status status = runBackward(&sink, std::ref(atBlock)); !status.ok())
      return status;
  }
  return Status();
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
    squaredNorm += trainables.squareOf(gradients.of(i), trainables.gradientElements(i));
  double norm = std::sqrt(squaredNorm);
  if (Status status = checkFinite("gradient's norm", norm); !status.ok())
    return status;
  const float factor = clipFactor(settings.clip, squaredNorm);
  for (uint32_t i = 0; i < trainables.count(); ++i) {
    float *gradient = gradients.of(i);
    multiply(gradient, trainables.gradientElements(i), factor);
    if (Status status = trainables.update(i, gradient); !status.ok())
      return status;
  }
  return Status();
}

// Computes all gradients twice instead of keeping them. Squares are added up in applyKept's order, for its bits.
Status Session::stepClippedTwice(const Tokens *batches, uint32_t count, double &loss, double &squaredNorm) {
  std::fill(squares.begin(), squares.end(), 0.0);
  NormSink norm(trainables, squares);
  if (Status status = runBatches(batches, count, norm, trainables.isRefreshDue(), loss); !status.ok())
    return status;
  for (double square : squares)
    squaredNorm += square;
  if (Status status = checkFinite("gradient's norm", std::sqrt(squaredNorm)); !status.ok())
    return status;
  // Gradients lay where the head finds its rows; without accumulation there is one batch.
  if (Status status = take(batches[0]); !status.ok())
    return status;
  ApplySink apply(trainables, cancellation, clipFactor(settings.clip, squaredNorm));
  return runBatches(batches, count, apply, false, loss);
}

// What is to become of gradients before they are applied, as a reduction over machines, would be a sink before these.
Status Session::stepByGradient(const Tokens *batches, uint32_t count, double &loss, double &squaredNorm) {
  if (gradients.areKept()) {
    KeepSink keep;
    if (Status status = runBatches(batches, count, keep, trainables.isRefreshDue(), loss); !status.ok())
      return status;
    gradientsKept = settings.return_gradients;
    return applyKept(squaredNorm);
  }
  if (settings.clip_recompute)
    return stepClippedTwice(batches, count, loss, squaredNorm);
  ApplySink apply(trainables, cancellation);
  Status status = runBatches(batches, count, apply, trainables.isRefreshDue(), loss);
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
  if (Status status = runBatches(&tokens, 1, keep, trainables.isRefreshDue(), out); !status.ok())
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
