// SPDX-License-Identifier: Apache-2.0
//
// A step that its user drives: sequences one after another, each with coefficients dL/dlogp that follow from its
// log-probabilities and from whatever else the user knows by then. Preferences and rewards are such objectives.
//
// 1. beginSequence runs the forward and the head's sweep, and gives the log-probabilities.
// 2. endSequence takes the coefficients and adds the gradient to a sum over the step.
// 3. A coefficient that a whole sequence has in common may come later, when another one has been scored (of a pair, for
//    example): the backward is linear in it. So the first of a pair goes to a sum of its own, with coefficients that
//    lack the factor, and `settle` adds that one, multiplied, to the step's.
// 4. applySums is the update. Of two adapters each has its own, one after the other: there is one sum of gradients.
//
// So a step holds the checkpoints of one sequence, however many it has.
#include "runtime/train/finite.h"
#include "runtime/train/session.h"

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

Status Session::takeScored(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out) {
  const bool substitutes = scoring.trainables || scoring.byBase;
  if (substitutes && !lane().gradients.areKept())
    return failure(MEBP_INVALID_ARGUMENT, "the session has no room to set its adapter aside; create it with accumulate "
                                          "or return_gradients");
  if (substitutes && hasSums)
    return failure(MEBP_INVALID_ARGUMENT, "gradients of sequences are where the adapter would be set aside; score by "
                                          "another adapter before the step's first sequence");
  if (substitutes && trainables.areProjected())
    return failure(MEBP_UNSUPPORTED, "an optimizer that projects gradients has no room to set the weights aside; "
                                     "compute what is compared with before training");
  if (Status status = take(tokens); !status.ok())
    return status;
  if (Status status = checkHead(lane().batch, out.values, false); !status.ok())
    return status;
  lane().live.logitScale = scoring.logitScale;
  return Status();
}

Status Session::beginSequence(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out) {
  if (Status status = checkTrains(); !status.ok())
    return status;
  if (!settings.accumulate || !lane().gradients.areKept())
    return failure(MEBP_INVALID_ARGUMENT, "a step over sequences needs room for the sum of their gradients; create the "
                                          "session with accumulate, and an optimizer that takes gradients");
  if (trainables.areProjected())
    return failure(MEBP_UNSUPPORTED, "a step over sequences gives no subspaces to an optimizer that projects "
                                     "gradients; choose another one");
  if (lane().batch.expertCosts())
    return failure(MEBP_UNSUPPORTED,
                   "the bundle's routers have a loss of their own, which a step over sequences does not "
                   "add; compile it without --router-aux-loss-coef");
  if (scoring.trainables || scoring.byBase)
    return failure(MEBP_INVALID_ARGUMENT, "a sequence is trained with the session's own adapter; score by another one "
                                          "with mebp_session_score");
  if (Status status = takeScored(tokens, scoring, out); !status.ok())
    return status;
  Lane &own = lane();
  if (own.labels == 0)
    return failure(MEBP_INVALID_ARGUMENT, "the sequence has no label that counts: all are -100, or stand at a row's "
                                          "first position, which nothing predicts");
  if (Status status = own.runForwardForBackward(); !status.ok())
    return status;
  if (Status status = own.sweepHead(); !status.ok())
    return status;
  own.giveScores(out);
  isOpen = true;
  peak.sample();
  return Status();
}

Status Session::runSequenceBackward(bool isPending) {
  Lane &own = lane();
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

Status Session::endSequence(const mebp_coefficients &coefficients, bool isPending) {
  if (!isOpen)
    return failure(MEBP_INVALID_ARGUMENT, "no sequence is open: another call has taken its memory, or it has ended");
  Lane &own = lane();
  if (isPending && !own.gradients.hasPending() && hasSums)
    return failure(MEBP_INVALID_ARGUMENT, "a gradient whose factor comes later has to be the step's first, or to have "
                                          "room of its own; create the session with pending_gradients");
  if (!isPending && isUnsettled && !own.gradients.hasPending())
    return failure(MEBP_INVALID_ARGUMENT, "the last gradient waits for its factor; give it first");
  if (Status status = checkHead(own.batch, coefficients.values, coefficients.entropy); !status.ok())
    return status;
  if (Status status = own.takeCoefficients(coefficients); !status.ok())
    return status;
  isOpen = false;
  if (!hasSums)
    own.gradients.clearSums();
  if (Status status = runSequenceBackward(isPending); !status.ok()) {
    discard(); // a part of it is in the sum
    return status;
  }
  gradientsKept = hasSums = true;
  isUnsettled |= isPending;
  peak.sample();
  return Status();
}

Status Session::settle(double factor) {
  if (!isUnsettled)
    return failure(MEBP_INVALID_ARGUMENT, "no gradient waits for a factor");
  if (Status status = checkFinite("factor", factor); !status.ok())
    return status;
  lane().gradients.settle(static_cast<float>(factor));
  isUnsettled = false;
  return Status();
}

Status Session::applySums(mebp_step_result &out) {
  const Begun begun = beginMeasuring();
  if (Status status = checkTrains(); !status.ok())
    return status;
  if (!hasSums || isUnsettled)
    return failure(MEBP_INVALID_ARGUMENT, isUnsettled ? "the last gradient waits for its factor; give it first"
                                                      : "there is no gradient of a sequence to apply");
  double squaredNorm = 0;
  trainables.beginStep();
  Status status = applyKept(squaredNorm);
  discard();
  if (status = trainables.endStep(status); !status.ok())
    return status;
  report(begun, squaredNorm, out);
  return Status();
}

Status Session::useAdapter(Adapter adapter) {
  if (!trainables.hasValueAdapter())
    return failure(MEBP_INVALID_ARGUMENT, "the session has one adapter; create it with value_adapter");
  if (hasSums && adapter != trainables.adapterInUse())
    return failure(MEBP_INVALID_ARGUMENT, "gradients of sequences are those of the adapter in use; apply or discard "
                                          "them before the other one's");
  isOpen = gradientsKept = false;
  return trainables.use(adapter);
}

Status Session::score(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out) {
  if (Status status = takeScored(tokens, scoring, out); !status.ok())
    return status;
  if (lane().labels) {
    Substitute substitute(*owner, trainables, lane().gradients);
    Status status = substitute.begin(scoring);
    if (status.ok())
      status = lane().runLogProbabilities();
    if (Status ended = substitute.end(); !status.ok() || !ended.ok())
      return status.ok() ? ended : status;
  }
  lane().giveScores(out);
  peak.sample();
  return Status();
}

} // namespace mebp
