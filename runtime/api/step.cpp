// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions that run a session's programs.
#include <cmath>

#include "runtime/api/handle.h"

using namespace mebp;

// What has no tokens may well be NULL, and is refused for having none.
static Status checkPointers(const mebp_batch &batch) {
  return batch.batch && batch.sequence ? checkArguments({{"ids", batch.ids}, {"labels", batch.labels}}) : Status();
}

// A function, which is no pointer to an object.
static mebp_code refuseMissing(const char *argument, mebp_error *error) {
  return guarded(error, {{argument, nullptr}}, [] { return Status(); });
}

// Runs what mebp_session_cancel may end.
template <typename Body>
static mebp_code runs(mebp_session *session, mebp_error *error, std::initializer_list<Argument> arguments,
                      const Body &body) {
  return withSession(session, error, arguments, [&](Session &used) {
    used.engine.cancellation.heed(true);
    Status status = used.engine.otherHalf.call([&] { return body(used); }); // nothing has changed before it is whole
    if (Status freed = used.engine.handed.release(); status.ok())
      status = freed;
    if (status.code() == MEBP_CANCELLED)
      used.engine.cancellation.settle();
    return status;
  });
}

void mebp_session_cancel(mebp_session *session) {
  if (session)
    session->lasting.cancellation.request();
}

void mebp_session_clear_cancel(mebp_session *session) {
  if (session)
    session->lasting.cancellation.settle();
}

mebp_code mebp_session_loss(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                            uint32_t sequence, double *loss, mebp_error *error) {
  const mebp_batch given = {ids, labels, batch, sequence};
  return mebp_session_packed_loss(session, &given, nullptr, loss, error);
}

mebp_code mebp_session_packed_loss(mebp_session *session, const mebp_batch *batch, const int32_t *starts, double *loss,
                                   mebp_error *error) {
  return runs(session, error, {{"batch", batch}, {"loss", loss}}, [&](Session &used) {
    double own = 0;
    Status status = checkPointers(*batch);
    if (status.ok())
      status = used.loss({*batch, starts}, own);
    if (status.ok())
      *loss = own;
    return status;
  });
}

static Status readScoring(const mebp_scoring *given, Scoring &out) {
  mebp_scoring scoring;
  mebp_scoring_init(&scoring);
  if (given)
    if (Status status = readSized("mebp_scoring", given, scoring); !status.ok())
      return status;
  if (!(scoring.temperature >= 0 && std::isfinite(scoring.temperature)))
    return failure(MEBP_INVALID_ARGUMENT, "the temperature is %g; give a finite number above 0", scoring.temperature);
  out.logitScale = scoring.temperature == 0 ? 1 : static_cast<float>(1 / scoring.temperature);
  out.trainables = scoring.trainables;
  out.byBase = scoring.by_base;
  return Status();
}

mebp_code mebp_session_log_probabilities(mebp_session *session, const int32_t *ids, const int32_t *labels,
                                         uint32_t batch, uint32_t sequence, float *out, float *entropy,
                                         mebp_error *error) {
  if (!out)
    return refuseMissing("out", error);
  mebp_scores scores;
  mebp_scores_init(&scores);
  scores.log_probabilities = out;
  scores.entropy = entropy;
  return mebp_session_score(session, ids, labels, batch, sequence, nullptr, &scores, error);
}

// A call on tokens that gives scores.
template <typename Body>
static mebp_code scores(mebp_session *session, const mebp_batch &given, const mebp_scoring *scoring,
                        const mebp_scores *out, mebp_error *error, const Body &body) {
  return runs(session, error, {{"out", out}}, [&](Session &used) {
    Scoring how;
    mebp_scores to;
    mebp_scores_init(&to);
    Status status = checkPointers(given);
    if (status.ok())
      status = readScoring(scoring, how);
    if (status.ok())
      status = readSized("mebp_scores", out, to);
    return status.ok() ? body(used, how, to) : status;
  });
}

mebp_code mebp_session_score(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                             uint32_t sequence, const mebp_scoring *scoring, const mebp_scores *out,
                             mebp_error *error) {
  const mebp_batch given = {ids, labels, batch, sequence};
  return scores(session, given, scoring, out, error, [&](Session &used, const Scoring &how, const mebp_scores &to) {
    return used.sequences.score(given, how, to);
  });
}

mebp_code mebp_session_begin_sequence(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                                      uint32_t sequence, const mebp_scoring *scoring, const mebp_scores *out,
                                      mebp_error *error) {
  const mebp_batch given = {ids, labels, batch, sequence};
  return scores(session, given, scoring, out, error, [&](Session &used, const Scoring &how, const mebp_scores &to) {
    return used.sequences.begin(given, how, to);
  });
}

bool mebp_session_has_open_sequence(const mebp_session *session) {
  return session && session->session && session->session->engine.held.isOpen;
}

mebp_code mebp_session_end_sequence(mebp_session *session, const mebp_coefficients *coefficients, bool pending,
                                    mebp_error *error) {
  return runs(session, error, {{"coefficients", coefficients}}, [&](Session &used) {
    mebp_coefficients given;
    mebp_coefficients_init(&given);
    Status status = readSized("mebp_coefficients", coefficients, given);
    return status.ok() ? used.sequences.end(given, pending) : status;
  });
}

mebp_code mebp_session_settle(mebp_session *session, double factor, mebp_error *error) {
  return withSession(session, error, {}, [&](Session &used) { return used.sequences.settle(factor); });
}

mebp_code mebp_session_begin_batch(mebp_session *session, uint32_t index, uint32_t count, mebp_error *error) {
  return withSession(session, error, {}, [&](Session &used) { return used.sequences.beginBatch(index, count); });
}

mebp_code mebp_session_apply(mebp_session *session, mebp_step_result *result, mebp_error *error) {
  return withSession(session, error, {{"result", result}}, [&](Session &used) {
    if (Status status = checkSize("mebp_step_result", *result); !status.ok())
      return status;
    mebp_step_result own = {};
    Status status = used.applySums(own);
    session->steps = used.engine.trainables.steps();
    if (status.ok())
      writeSized(own, result);
    return status;
  });
}

mebp_code mebp_session_discard(mebp_session *session, mebp_error *error) {
  return withSession(session, error, {}, [&](Session &used) {
    used.sequences.discard();
    return Status();
  });
}

mebp_code mebp_session_use_value_adapter(mebp_session *session, bool uses, mebp_error *error) {
  return withSession(session, error, {},
                     [&](Session &used) { return used.sequences.useAdapter(uses ? Adapter::Value : Adapter::Policy); });
}

static mebp_code gradientsOf(mebp_session *session, const Tokens &given, const Objective &objective, double *loss,
                             mebp_error *error) {
  return runs(session, error, {{"loss", loss}}, [&](Session &used) {
    double own = 0;
    Status status = checkPointers(given);
    if (status.ok())
      status = used.lossAndGradients(given, objective, own);
    if (status.ok())
      *loss = own;
    return status;
  });
}

mebp_code mebp_session_gradients(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                                 uint32_t sequence, double *loss, mebp_error *error) {
  return gradientsOf(session, mebp_batch{ids, labels, batch, sequence}, {}, loss, error);
}

mebp_code mebp_session_packed_gradients(mebp_session *session, const mebp_batch *batch, const int32_t *starts,
                                        double *loss, mebp_error *error) {
  if (!batch)
    return refuseMissing("batch", error);
  return gradientsOf(session, {*batch, starts}, {}, loss, error);
}

mebp_code mebp_session_objective_gradients(mebp_session *session, const int32_t *ids, const int32_t *labels,
                                           uint32_t batch, uint32_t sequence, mebp_objective objective, void *user,
                                           double *loss, mebp_error *error) {
  if (!objective)
    return refuseMissing("objective", error);
  return gradientsOf(session, mebp_batch{ids, labels, batch, sequence}, {objective, user}, loss, error);
}

mebp_code mebp_session_step(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                            uint32_t sequence, mebp_step_result *result, mebp_error *error) {
  const mebp_batch one = {ids, labels, batch, sequence};
  return mebp_session_step_batches(session, &one, 1, result, error);
}

static Status checkBatches(const Batches &batches) {
  Status status = batches.count ? checkArguments({{"batches", batches.tokens}}) : Status();
  for (uint32_t i = 0; status.ok() && i < batches.count; ++i)
    status = checkPointers(batches[i]);
  return status;
}

mebp_code mebp_session_count_labels(mebp_session *session, const mebp_batch *batches, const int32_t *const *starts,
                                    uint32_t count, uint64_t *labels, mebp_error *error) {
  const Batches given(batches, starts, count);
  return withSession(session, error, {{"labels", labels}}, [&](Session &used) {
    uint64_t found = 0;
    Status status = checkBatches(given);
    if (status.ok())
      status = used.countLabels(given, found);
    if (status.ok())
      *labels = found;
    return status;
  });
}

static mebp_code stepOf(mebp_session *session, const Batches &batches, const Objective &objective,
                        mebp_step_result *result, mebp_error *error) {
  return runs(session, error, {{"result", result}}, [&](Session &used) {
    Status status = checkSize("mebp_step_result", *result);
    if (status.ok())
      status = checkBatches(batches);
    if (!status.ok())
      return status;
    mebp_step_result own = {};
    status = used.step(batches, objective, own);
    session->steps = used.engine.trainables.steps();
    if (status.ok())
      writeSized(own, result);
    return status;
  });
}

mebp_code mebp_session_step_batches(mebp_session *session, const mebp_batch *batches, uint32_t count,
                                    mebp_step_result *result, mebp_error *error) {
  return mebp_session_packed_step(session, batches, nullptr, count, result, error);
}

mebp_code mebp_session_packed_step(mebp_session *session, const mebp_batch *batches, const int32_t *const *starts,
                                   uint32_t count, mebp_step_result *result, mebp_error *error) {
  return stepOf(session, {batches, starts, count}, {}, result, error);
}

mebp_code mebp_session_step_part(mebp_session *session, const mebp_batch *batches, const int32_t *const *starts,
                                 uint32_t count, const mebp_step_part *part, mebp_step_result *result,
                                 mebp_error *error) {
  mebp_step_part own = {};
  if (!part)
    return refuseMissing("part", error);
  if (Status status = readSized("mebp_step_part", part, own); !status.ok())
    return report(status, error);
  if (own.batches < count)
    return report(
        failure(MEBP_INVALID_ARGUMENT, "the part of a step has %u micro-batches and all of it %u", count, own.batches),
        error);
  return stepOf(session, {batches, starts, count, {own.labels, own.batches, own.first_row}}, {}, result, error);
}

mebp_code mebp_session_objective_step(mebp_session *session, const mebp_batch *batches, uint32_t count,
                                      mebp_objective objective, void *user, mebp_step_result *result,
                                      mebp_error *error) {
  if (!objective)
    return refuseMissing("objective", error);
  return stepOf(session, {batches, nullptr, count}, {objective, user}, result, error);
}

// While another thread is within a step.
mebp_code mebp_session_give_gradient(mebp_session *session, uint32_t trainable, mebp_error *error) {
  return guarded(error, {{"session", session}}, [&] {
    return session->session ? session->session->engine.handover.give(trainable)
                            : failure(MEBP_PAUSED, "the session is paused and has taken no gradient");
  });
}

mebp_code mebp_session_apply_gradients(mebp_session *session, const float *const *gradients, mebp_error *error) {
  return withSession(session, error, {{"gradients", gradients}}, [&](Session &used) {
    for (uint32_t i = 0; i < used.engine.trainables.count(); ++i)
      if (Status status = checkArguments({{"gradients[i]", gradients[i]}}); !status.ok())
        return status;
    Status status = used.applyGradients(gradients);
    session->steps = used.engine.trainables.steps();
    return status;
  });
}

mebp_code mebp_session_logits(mebp_session *session, const int32_t *ids, uint32_t batch, uint32_t sequence,
                              uint32_t first, uint32_t count, float *out, mebp_error *error) {
  const mebp_batch tokens = {ids, nullptr, batch, sequence};
  return mebp_session_packed_logits(session, &tokens, nullptr, first, count, out, error);
}

mebp_code mebp_session_packed_logits(mebp_session *session, const mebp_batch *batch, const int32_t *starts,
                                     uint32_t first, uint32_t count, float *out, mebp_error *error) {
  return runs(session, error, {{"batch", batch}, {"out", out}}, [&](Session &used) {
    const mebp_batch tokens = {batch->ids, nullptr, batch->batch, batch->sequence};
    Status status = checkPointers({tokens.ids, tokens.ids, tokens.batch, tokens.sequence});
    return !status.ok() ? status : used.logits({tokens, starts}, first, count, out);
  });
}
