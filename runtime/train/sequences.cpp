// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/sequences.h"

#include "runtime/train/finite.h"

namespace mebp {

// What the head does not give cannot be asked for, or be depended on.
static Status checkHead(const BatchMemory &batch, bool asksValues, bool asksEntropy) {
  if (asksValues && !(batch.values() && batch.valueCoefficients()))
    return failure(MEBP_UNSUPPORTED, "the bundle's head gives no values; compile it with --value-head");
  if (asksEntropy && !batch.entropyCoefficients())
    return failure(MEBP_UNSUPPORTED, "the bundle's head has no derivative of its entropy; compile it with "
                                     "--entropy-bonus");
  return Status();
}

Status Sequences::takeScored(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out) {
  const bool substitutes = scoring.trainables || scoring.byBase;
  if (substitutes && !engine.lane().gradients.haveMemory())
    return failure(MEBP_INVALID_ARGUMENT, "the session has no room to set its adapter aside; create it with accumulate "
                                          "or return_gradients");
  if (substitutes && engine.held.sums)
    return failure(MEBP_INVALID_ARGUMENT, "gradients of sequences are where the adapter would be set aside; score by "
                                          "another adapter before the step's first sequence");
  if (substitutes && engine.trainables.areProjected())
    return failure(MEBP_UNSUPPORTED, "an optimizer that projects gradients has no room to set the weights aside; "
                                     "compute what is compared with before training");
  if (Status status = engine.take(tokens); !status.ok())
    return status;
  if (Status status = checkHead(engine.lane().batch, out.values, false); !status.ok())
    return status;
  engine.lane().live.logitScale = scoring.logitScale;
  return Status();
}

Status Sequences::begin(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out) {
  if (Status status = engine.checkTrains(); !status.ok())
    return status;
  if (!engine.settings.accumulate || !engine.lane().gradients.areKept())
    return failure(MEBP_INVALID_ARGUMENT, "a step over sequences needs room for the sum of their gradients; create the "
                                          "session with accumulate, and an optimizer that takes gradients");
  if (engine.trainables.areProjected())
    return failure(MEBP_UNSUPPORTED, "a step over sequences gives no subspaces to an optimizer that projects "
                                     "gradients; choose another one");
  if (engine.lane().batch.expertCosts())
    return failure(MEBP_UNSUPPORTED,
                   "the bundle's routers have a loss of their own, which a step over sequences does not "
                   "add; compile it without --router-aux-loss-coef");
  if (scoring.trainables || scoring.byBase)
    return failure(MEBP_INVALID_ARGUMENT, "a sequence is trained with the session's own adapter; score by another one "
                                          "with mebp_session_score");
  if (Status status = takeScored(tokens, scoring, out); !status.ok())
    return status;
  Lane &own = engine.lane();
  if (own.labels == 0)
    return failure(MEBP_INVALID_ARGUMENT, "the sequence has no label that counts: all are -100, or stand at a row's "
                                          "first position, which nothing predicts");
  if (Status status = own.runForwardForBackward(); !status.ok())
    return status;
  if (Status status = own.sweepHead(); !status.ok())
    return status;
  own.giveScores(out);
  engine.held.isOpen = true;
  engine.peak.sample();
  return Status();
}

Status Sequences::runBackward(bool isPending) {
  Lane &own = engine.lane();
  if (Status status = own.finishHead(); !status.ok())
    return status;
  KeepSink keep;
  auto nothing = [](uint32_t) { return Status(); };
  own.gradients.deliverToPending(isPending && own.gradients.hasPending());
  Status status = own.gradients.deliver(own.blocks.head(), keep);
  if (status.ok())
    status = own.runBackward(&keep, std::ref(nothing));
  own.gradients.deliverToPending(false);
  return status;
}

Status Sequences::end(const mebp_coefficients &coefficients, bool isPending) {
  if (!engine.held.isOpen)
    return failure(MEBP_INVALID_ARGUMENT, "no sequence is open: another call has taken its memory, or it has ended");
  Lane &own = engine.lane();
  if (isPending && !own.gradients.hasPending() && engine.held.sums && engine.held.isBegun)
    return failure(MEBP_INVALID_ARGUMENT, "a gradient whose factor comes later has to be the first of its step or "
                                          "micro-batch, or to have room of its own; create the session with "
                                          "pending_gradients");
  if (!isPending && engine.held.unsettled && !own.gradients.hasPending())
    return failure(MEBP_INVALID_ARGUMENT, "the last gradient waits for its factor; give it first");
  if (Status status = checkHead(own.batch, coefficients.values, coefficients.entropy); !status.ok())
    return status;
  if (Status status = own.takeCoefficients(coefficients); !status.ok())
    return status;
  engine.held.isOpen = false;
  if (!engine.held.sums) {
    own.gradients.clearSums();
    engine.held.batches = 0;
  }
  if (Status status = runBackward(isPending); !status.ok()) {
    discard(); // a part of it is in the sum
    return status;
  }
  engine.held.gradients = engine.held.sums = engine.held.isBegun = true;
  engine.held.unsettled |= isPending;
  engine.peak.sample();
  return Status();
}

Status Sequences::settle(double factor) {
  if (!engine.held.unsettled)
    return failure(MEBP_INVALID_ARGUMENT, "no gradient waits for a factor");
  if (Status status = checkFinite("factor", factor); !status.ok())
    return status;
  engine.lane().gradients.settle(static_cast<float>(factor));
  engine.held.unsettled = false;
  return Status();
}

Status Sequences::beginBatch(uint32_t index, uint32_t count) {
  if (Status status = engine.checkTrains(); !status.ok())
    return status;
  Held &held = engine.held;
  if (count == 0 || count > engine.settings.tree_batches)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a step over sequences has %u micro-batches, and tree_batches is %u; create the session with as "
                   "many, and at least one",
                   count, engine.settings.tree_batches);
  if (held.unsettled)
    return failure(MEBP_INVALID_ARGUMENT, "the last gradient waits for its factor; give it first");
  const bool isNext = index == 0 || (held.sums && held.batches == count && held.batch + 1 == index);
  if (index >= count || !isNext)
    return failure(MEBP_INVALID_ARGUMENT,
                   "micro-batch %u of %u does not come next; begin them from 0 on, one after "
                   "the other",
                   index, count);
  Gradients &gradients = engine.lane().gradients;
  if (index == 0)
    gradients.clearSums();
  gradients.endInTree(/*isSkipped=*/false);
  gradients.beginInTree(index, count, /*hasSeveral=*/true);
  held.gradients = held.sums = true; // zeros so far
  held.isOpen = held.isBegun = false;
  held.batch = index;
  held.batches = count;
  return Status();
}

Status Sequences::apply(double &squaredNorm) {
  if (Status status = engine.checkTrains(); !status.ok())
    return status;
  if (!engine.held.sums || engine.held.unsettled)
    return failure(MEBP_INVALID_ARGUMENT, engine.held.unsettled
                                              ? "the last gradient waits for its factor; give it first"
                                              : "there is no gradient of a sequence to apply");
  if (engine.held.batches && engine.held.batch + 1 < engine.held.batches)
    return failure(MEBP_INVALID_ARGUMENT,
                   "micro-batch %u of %u is not the step's last; begin the others before the "
                   "update",
                   engine.held.batch, engine.held.batches);
  engine.lane().gradients.endInTree(/*isSkipped=*/false);
  squaredNorm = 0;
  engine.trainables.beginStep();
  engine.handover.begin();
  Status status = step.applyKept(squaredNorm);
  discard();
  return engine.trainables.endStep(status);
}

Status Sequences::useAdapter(Adapter adapter) {
  if (!engine.trainables.hasValueAdapter())
    return failure(MEBP_INVALID_ARGUMENT, "the session has one adapter; create it with value_adapter");
  if (engine.held.sums && adapter != engine.trainables.adapterInUse())
    return failure(MEBP_INVALID_ARGUMENT, "gradients of sequences are those of the adapter in use; apply or discard "
                                          "them before the other one's");
  engine.held.isOpen = engine.held.gradients = false;
  return engine.trainables.use(adapter);
}

Status Sequences::score(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out) {
  if (Status status = takeScored(tokens, scoring, out); !status.ok())
    return status;
  if (engine.lane().labels) {
    Substitute substitute(engine.bundle(), engine.trainables, engine.lane().gradients);
    Status status = substitute.begin(scoring);
    if (status.ok())
      status = engine.lane().runLogProbabilities();
    if (Status ended = substitute.end(); !status.ok() || !ended.ok())
      return status.ok() ? ended : status;
  }
  engine.lane().giveScores(out);
  engine.peak.sample();
  return Status();
}

} // namespace mebp
