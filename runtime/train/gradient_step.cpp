// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/gradient_step.h"

#include <algorithm>
#include <cmath>

#include "format/lookup.h"
#include "runtime/train/finite.h"

namespace mebp {

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
  // `squares` are of each trainable where the order in which they come may be any, and empty else.
  ApplySink(Trainables &trainables, Cancellation &cancellation, std::vector<double> &squares, float factor = 1)
      : trainables(trainables), cancellation(cancellation), squares(squares), factor(factor) {}
  Status take(uint32_t trainable, float *gradient) override {
    if (!trainables.owns(trainable))
      return Status();
    cancellation.heed(false); // from here on the step would end half applied
    const double square = trainables.squareOf(trainable, gradient);
    squaredNorm += square;
    if (!squares.empty())
      squares[trainable] = square;
    multiply(gradient, trainables.gradientElements(trainable), factor);
    return trainables.update(trainable, gradient);
  }

  double squaredNorm = 0; // of all so far

private:
  Trainables &trainables;
  Cancellation &cancellation;
  std::vector<double> &squares;
  float factor;
};

// Leaves of each gradient its square alone.
class NormSink final : public GradientSink {
public:
  NormSink(const Trainables &trainables, std::vector<double> &squares) : trainables(trainables), squares(squares) {}
  Status take(uint32_t trainable, float *gradient) override {
    squares[trainable] = trainables.squareOf(trainable, gradient);
    return Status();
  }

private:
  const Trainables &trainables;
  std::vector<double> &squares;
};

uint64_t tilesOwned(const Trainables &trainables, uint32_t trainable) {
  const uint64_t tile = format::normTile(trainables.gradientElements(trainable));
  return trainables.owns(trainable) ? (trainables.owned(trainable).count() + tile - 1) / tile : 0;
}

} // namespace

void GradientStep::create() {
  const bool needsSquares = engine.settings.clip_recompute || engine.handover.isAsked();
  squares.resize(needsSquares ? engine.trainables.count() : 0);
  uint64_t all = 0;
  for (uint32_t i = 0; engine.settings.on_norm && i < engine.trainables.count(); ++i)
    all += tilesOwned(engine.trainables, i);
  tiles.resize(all);
}

// From the head on, in the order of those that add something: one without labels does not.
Status GradientStep::runSample(Lane &own, const Batches &batches, uint32_t index, GradientSink &applied, bool isLast,
                               bool refreshes, double &loss) {
  OfferSink offering(engine.handover, applied); // complete with the last micro-batch
  GradientSink &sink = isLast ? static_cast<GradientSink &>(offering) : applied;
  if (engine.settings.tree_batches)
    own.gradients.beginInTree(index, batches.count);
  if (Status status = Engine::takeAgain(own, batches, index); !status.ok() || own.labels == 0) {
    if (engine.settings.tree_batches)
      own.gradients.endInTree(/*isSkipped=*/true);
    return status;
  }
  own.live.dropout = dropout;
  own.live.dropout.firstSample += batches.part.firstRow;
  for (uint32_t earlier = 0; earlier < index; ++earlier)
    own.live.dropout.firstSample += batches[earlier].batch;
  own.place = engine.flight.lineUp();
  if (Status status = own.runForwardForBackward(); !status.ok())
    return status;
  const uint32_t head = own.blocks.head();
  if (Status status = engine.flight.enter(head, own.place); !status.ok())
    return status;
  double part = 0;
  if (Status status = own.runObjective(engine.objective, part); !status.ok())
    return status;
  loss += part;
  if (Status status = own.gradients.deliver(head, sink); !status.ok())
    return status;
  engine.flight.leave(head);
  auto atBlock = [&](uint32_t block) {
    if (engine.handover.isAsked())
      if (Status status = engine.handover.settleSlot(own.gradients.slotOf(block), applied); !status.ok())
        return status;
    return refreshes ? search.refresh(own, block) : Status();
  };
  Status status = own.runBackward(&sink, std::ref(atBlock));
  if (engine.settings.tree_batches)
    own.gradients.endInTree(/*isSkipped=*/false);
  return status;
}

// The objective over all micro-batches, and its gradient.
Status GradientStep::runBatches(const Batches &batches, GradientSink &sink, bool refreshes, double &loss) {
  engine.held.gradients = engine.held.sums = false;
  const bool isAlone = batches.count == 1 && batches.part.batches <= 1;
  if (refreshes && !isAlone) {
    if (Status status = search.run(batches); !status.ok())
      return status;
    if (Status status = engine.take(batches[0]); !status.ok()) // which nothing takes again where it is the only one
      return status;
  }
  engine.lane().gradients.clearSums();
  loss = 0;
  auto runOne = [&](uint32_t number, uint32_t index) {
    return runSample(engine.lanes[number], batches, index, sink, index + 1 == batches.count, refreshes && isAlone,
                     loss);
  };
  engine.handover.begin();
  Status status = engine.flight.run(batches.count, std::ref(runOne));
  return status.ok() ? engine.handover.settleAll(sink) : status;
}

Status GradientStep::offerRest() {
  KeepSink keep;
  const bool areAllHere = engine.lane().gradients.haveMemory();
  for (uint32_t i = 0; engine.handover.isAsked() && i < engine.trainables.count(); ++i)
    if (!engine.handover.isOffered(i) && (areAllHere || engine.trainables.owns(i)))
      if (Status status = engine.handover.offer(i, engine.lane().gradients.of(i), keep); !status.ok())
        return status;
  return engine.handover.settleAll(keep);
}

// The caller may replace it by that of the gradient over all machines.
Status GradientStep::squareKept(double &squaredNorm) {
  const mebp_session_options &settings = engine.settings;
  uint64_t begin = 0;
  for (uint32_t i = 0; i < engine.trainables.count(); ++i) {
    if (!engine.trainables.owns(i))
      continue;
    const float *gradient = engine.lane().gradients.of(i);
    squaredNorm += settings.on_norm ? engine.trainables.squareOf(i, gradient, tiles.data() + begin)
                                    : engine.trainables.squareOf(i, gradient);
    begin += tilesOwned(engine.trainables, i);
  }
  if (settings.on_norm)
    if (const mebp_code code = settings.on_norm(settings.norm_user, tiles.data(), tiles.size(), &squaredNorm);
        code != MEBP_OK)
      return failure(code, "on_norm has failed; no gradient has been applied");
  return checkFinite("gradient's norm", std::sqrt(squaredNorm));
}

Status GradientStep::applyKept(double &squaredNorm) {
  if (Status status = offerRest(); !status.ok())
    return status;
  if (Status status = squareKept(squaredNorm); !status.ok())
    return status;
  const float factor = clipFactor(engine.settings.clip, squaredNorm);
  for (uint32_t i = 0; i < engine.trainables.count(); ++i) {
    if (!engine.trainables.owns(i))
      continue;
    float *gradient = engine.lane().gradients.of(i);
    multiply(gradient, engine.trainables.gradientElements(i), factor);
    if (Status status = engine.trainables.update(i, gradient); !status.ok())
      return status;
  }
  return Status();
}

// Computes all gradients twice instead of keeping them. Squares are added up in applyKept's order, for its bits.
Status GradientStep::runTwice(const Batches &batches, double &loss, double &squaredNorm) {
  std::fill(squares.begin(), squares.end(), 0.0);
  NormSink norm(engine.trainables, squares);
  if (Status status = runBatches(batches, norm, engine.trainables.isRefreshDue(), loss); !status.ok())
    return status;
  for (double square : squares)
    squaredNorm += square;
  if (Status status = checkFinite("gradient's norm", std::sqrt(squaredNorm)); !status.ok())
    return status;
  // Gradients lay where the head finds its rows; without accumulation there is one batch.
  if (Status status = engine.take(batches[0]); !status.ok())
    return status;
  ApplySink apply(engine.trainables, engine.cancellation, squares, clipFactor(engine.settings.clip, squaredNorm));
  return runBatches(batches, apply, false, loss);
}

Status GradientStep::run(const Batches &batches, double &loss, double &squaredNorm) {
  const uint64_t seed = seedOf(engine.content().model());
  dropout = {true, format::randomBits(seed, 3, engine.trainables.stepsDone()), 0};
  if (engine.lane().gradients.areKept()) {
    KeepSink keep;
    if (Status status = runBatches(batches, keep, engine.trainables.isRefreshDue(), loss); !status.ok())
      return status;
    engine.held.gradients = engine.settings.return_gradients;
    return applyKept(squaredNorm);
  }
  if (engine.settings.clip_recompute)
    return runTwice(batches, loss, squaredNorm);
  ApplySink apply(engine.trainables, engine.cancellation, squares);
  Status status = runBatches(batches, apply, engine.trainables.isRefreshDue(), loss);
  squaredNorm = apply.squaredNorm;
  if (engine.handover.isAsked()) { // in the order of those that are not taken, for their bits
    squaredNorm = 0;
    for (uint32_t trainable : engine.handover.offered())
      squaredNorm += squares[trainable];
  }
  return status;
}

Status GradientStep::keep(const Batches &batches, double &loss) {
  dropout = {};
  KeepSink keep;
  Status status = runBatches(batches, keep, engine.trainables.isRefreshDue(), loss);
  engine.held.gradients = status.ok();
  return status;
}

} // namespace mebp
