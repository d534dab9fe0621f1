// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about sessions.
#include <cstring>
#include <memory>

#include "runtime/adapter/adapter.h"
#include "runtime/api/handle.h"
#include "runtime/backends/backends.h"
#include "runtime/core/decimal.h"
#include "runtime/train/layout.h"
#include "runtime/train/options.h"
#include "runtime/train/session.h"
#include "runtime/train/state.h"

using namespace mebp;

struct mebp_session {
  Session session;
};

void mebp_session_options_init(mebp_session_options *options) {
  *options = {};
  options->optimizer = MEBP_ADAMW;
  options->learning_rate = 2e-4f;
  options->beta1 = 0.9f;
  options->beta2 = 0.999f;
  options->epsilon = 1e-8f;
  options->perturbation = 1e-3f;
}

uint64_t mebp_session_memory_bytes(const mebp_bundle *bundle, const mebp_session_options *options) {
  const format::Bundle &content = bundle->bundle.content();
  const mebp_session_options followed = followPlan(content, *options);
  if (!findBackend(options->backend))
    return 0;
  Result<std::unique_ptr<Backend>> backend = makeBackendOf(followed);
  return backend.ok() ? planSession(content, followed, **backend).total : 0;
}

uint64_t mebp_session_peak_bytes(const mebp_bundle *bundle, const mebp_session_options *options) {
  return bundle->bundle.content().plan().process_bytes() + mebp_session_memory_bytes(bundle, options);
}

mebp_code mebp_session_create(mebp_bundle *bundle, const mebp_session_options *options, mebp_session **out,
                              mebp_error *error) {
  *out = nullptr;
  auto created = std::make_unique<mebp_session>();
  if (Status status = created->session.create(bundle->bundle, *options); !status.ok())
    return report(status, error);
  *out = created.release();
  return MEBP_OK;
}

void mebp_session_destroy(mebp_session *session) { delete session; }

mebp_code mebp_session_loss(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                            uint32_t sequence, float *loss, mebp_error *error) {
  return report(session->session.loss({ids, labels, batch, sequence}, *loss), error);
}

mebp_code mebp_session_gradients(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                                 uint32_t sequence, float *loss, mebp_error *error) {
  return report(session->session.lossAndGradients({ids, labels, batch, sequence}, *loss), error);
}

mebp_code mebp_session_step(mebp_session *session, const int32_t *ids, const int32_t *labels, uint32_t batch,
                            uint32_t sequence, mebp_step_result *result, mebp_error *error) {
  mebp_batch one = {ids, labels, batch, sequence};
  return mebp_session_step_batches(session, &one, 1, result, error);
}

mebp_code mebp_session_step_batches(mebp_session *session, const mebp_batch *batches, uint32_t count,
                                    mebp_step_result *result, mebp_error *error) {
  return report(session->session.step(batches, count, *result), error);
}

mebp_code mebp_session_apply_gradients(mebp_session *session, const float *const *gradients, mebp_error *error) {
  return report(session->session.applyGradients(gradients), error);
}

mebp_code mebp_session_logits(mebp_session *session, const int32_t *ids, uint32_t batch, uint32_t sequence,
                              uint32_t first, uint32_t count, float *out, mebp_error *error) {
  return report(session->session.logits({ids, nullptr, batch, sequence}, first, count, out), error);
}

void mebp_session_set_learning_rate(mebp_session *session, float learning_rate) {
  session->session.trainables.options.learningRate = decimalOf(learning_rate);
}

uint64_t mebp_session_steps(const mebp_session *session) { return session->session.trainables.stepsDone; }

const char *mebp_session_kernels(const mebp_session *session) { return session->session.kernels(); }

static Status checkTrainable(const Session &session, uint32_t index, uint64_t count) {
  if (index >= session.trainables.count())
    return failure(MEBP_INVALID_ARGUMENT, "there is no trainable number %u; the bundle has %u", index,
                   session.trainables.count());
  if (count == session.trainables.elements(index))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "'%s' has %llu elements, not %llu",
                 session.bundle().content().trainables(static_cast<int>(index)).name().c_str(),
                 static_cast<unsigned long long>(session.trainables.elements(index)),
                 static_cast<unsigned long long>(count));
}

mebp_code mebp_session_read_trainable(const mebp_session *session, uint32_t index, float *out, uint64_t count,
                                      mebp_error *error) {
  if (Status status = checkTrainable(session->session, index, count); !status.ok())
    return report(status, error);
  std::memcpy(out, session->session.trainables.parameters(index), count * sizeof(float));
  return MEBP_OK;
}

mebp_code mebp_session_write_trainable(mebp_session *session, uint32_t index, const float *values, uint64_t count,
                                       mebp_error *error) {
  if (Status status = checkTrainable(session->session, index, count); !status.ok())
    return report(status, error);
  std::memcpy(session->session.trainables.parameters(index), values, count * sizeof(float));
  return MEBP_OK;
}

mebp_code mebp_session_read_gradient(const mebp_session *session, uint32_t index, float *out, uint64_t count,
                                     mebp_error *error) {
  if (Status status = checkTrainable(session->session, index, count); !status.ok())
    return report(status, error);
  if (!session->session.hasGradients())
    return report(failure(MEBP_INVALID_ARGUMENT,
                          "there is no gradient yet; create the session with return_gradients and run a step first"),
                  error);
  std::memcpy(out, session->session.gradient(index), count * sizeof(float));
  return MEBP_OK;
}

mebp_code mebp_session_save_adapter(const mebp_session *session, const char *folder, mebp_error *error) {
  return report(saveAdapter(session->session, folder), error);
}

mebp_code mebp_session_load_adapter(mebp_session *session, const char *folder, mebp_error *error) {
  return report(loadAdapter(session->session, folder), error);
}

mebp_code mebp_session_save_state(const mebp_session *session, const char *folder, const void *user,
                                  uint64_t user_bytes, mebp_error *error) {
  return report(saveState(session->session, folder, user, user_bytes), error);
}

mebp_code mebp_session_load_state(mebp_session *session, const char *folder, void *user, uint64_t *user_bytes,
                                  mebp_error *error) {
  return report(loadState(session->session, folder, user, user_bytes), error);
}
