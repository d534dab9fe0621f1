// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about sessions: how one is made, and what of it is read and saved. step.cpp has what it runs.
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/adapter/adapter.h"
#include "runtime/api/handle.h"
#include "runtime/core/files.h"
#include "runtime/train/layout.h"
#include "runtime/train/options.h"
#include "runtime/train/state.h"

using namespace mebp;

static mebp_session_options defaultOptions() {
  mebp_session_options options = {};
  options.size = sizeof(options);
  options.optimizer = MEBP_ADAMW;
  options.learning_rate = 2e-4;
  options.beta1 = 0.9;
  options.beta2 = 0.999;
  options.epsilon = 1e-8;
  options.perturbation = 1e-3;
  return options;
}

static Status readOptions(const mebp_session_options *given, mebp_session_options &own) {
  own = defaultOptions();
  return readSized("mebp_session_options", given, own);
}

void mebp_session_options_init_sized(mebp_session_options *options, size_t size) {
  if (!options || size <= sizeof(size_t))
    return;
  const mebp_session_options own = defaultOptions();
  std::memset(static_cast<void *>(options), 0, size);
  options->size = size;
  writeSized(own, options);
}

// Of the arena; 0 where a session could not be made.
static uint64_t memoryBytes(const mebp_bundle *bundle, const mebp_session_options *given) {
  mebp_session_options options;
  if (!bundle || !given || !readOptions(given, options).ok())
    return 0;
  const format::Bundle &content = bundle->bundle.content();
  const mebp_session_options followed = followPlan(content, options);
  if (!checkSessionOptions(options, followed).ok())
    return 0;
  Result<std::unique_ptr<Backend>> backend = makeBackendOf(followed);
  return backend.ok() ? planSession(content, followed, **backend).total : 0;
}

uint64_t mebp_session_memory_bytes(const mebp_bundle *bundle, const mebp_session_options *options) {
  return unlessOutOfMemory([&] { return memoryBytes(bundle, options); }, [] { return uint64_t(0); });
}

uint64_t mebp_session_peak_bytes(const mebp_bundle *bundle, const mebp_session_options *options) {
  uint64_t arena = mebp_session_memory_bytes(bundle, options);
  return arena ? bundle->bundle.content().plan().process_bytes() + arena : 0;
}

mebp_code mebp_session_create(mebp_bundle *bundle, const mebp_session_options *options, mebp_session **out,
                              mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"bundle", bundle}, {"options", options}, {"out", out}}, [&] {
    mebp_session_options own;
    auto created = std::make_unique<mebp_session>();
    Status status = readOptions(options, own);
    if (status.ok())
      status = created->session.create(bundle->bundle, own);
    if (status.ok())
      *out = created.release();
    return status;
  });
}

void mebp_session_destroy(mebp_session *session) { delete session; }

mebp_code mebp_session_set_learning_rate(mebp_session *session, double learning_rate, mebp_error *error) {
  return withSession(session, error, {}, [&](Session &used) { return used.trainables.setLearningRate(learning_rate); });
}

uint64_t mebp_session_steps(const mebp_session *session) { return session ? session->steps.load() : 0; }

const char *mebp_session_kernels(const mebp_session *session) { return session ? session->session.kernels() : nullptr; }

static Status checkTrainable(const Session &session, uint32_t index, uint64_t count) {
  if (index >= session.trainables.count())
    return failure(MEBP_INVALID_ARGUMENT, "trainable %u does not exist; the bundle has %u", index,
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
  return withSession(session, error, {{"out", out}}, [&](const Session &used) {
    Status status = checkTrainable(used, index, count);
    if (status.ok())
      std::memcpy(out, used.trainables.parameters(index), count * sizeof(float));
    return status;
  });
}

mebp_code mebp_session_write_trainable(mebp_session *session, uint32_t index, const float *values, uint64_t count,
                                       mebp_error *error) {
  return withSession(session, error, {{"values", values}}, [&](Session &used) {
    Status status = checkTrainable(used, index, count);
    if (status.ok())
      std::memcpy(used.trainables.parameters(index), values, count * sizeof(float));
    return status;
  });
}

mebp_code mebp_session_read_gradient(const mebp_session *session, uint32_t index, float *out, uint64_t count,
                                     mebp_error *error) {
  return withSession(session, error, {{"out", out}}, [&](const Session &used) {
    if (Status status = checkTrainable(used, index, count); !status.ok())
      return status;
    if (!used.hasGradients())
      return failure(MEBP_INVALID_ARGUMENT,
                     "there is no gradient yet; create the session with return_gradients and run a step first");
    std::memcpy(out, used.gradient(index), count * sizeof(float));
    return Status();
  });
}

mebp_code mebp_session_save_adapter(const mebp_session *session, const char *folder, mebp_error *error) {
  return withSession(session, error, {{"folder", folder}},
                     [&](const Session &used) { return saveAdapter(used, folder); });
}

mebp_code mebp_session_load_adapter(mebp_session *session, const char *folder, mebp_error *error) {
  return withSession(session, error, {{"folder", folder}}, [&](Session &used) { return loadAdapter(used, folder); });
}

mebp_code mebp_session_save_state(const mebp_session *session, const char *folder, const void *user,
                                  uint64_t user_bytes, mebp_error *error) {
  return withSession(session, error, {{"folder", folder}}, [&](const Session &used) {
    Status status = user_bytes ? checkArguments({{"user", user}}) : Status();
    return status.ok() ? saveState(used, folder, user, user_bytes) : status;
  });
}

bool mebp_session_is_poisoned(const mebp_session *session) {
  return session && !session->session.trainables.checkWhole().ok();
}

mebp_code mebp_session_check_space(const mebp_session *session, const char *state_folder, const char *adapter_folder,
                                   mebp_error *error) {
  return withSession(session, error, {}, [&](const Session &used) {
    std::vector<DiskUse> uses;
    if (state_folder)
      uses.push_back({state_folder, stateDiskBytes(used, state_folder)});
    if (Status status = adapter_folder ? checkLora(used) : Status(); !status.ok())
      return status;
    if (adapter_folder)
      uses.push_back({adapter_folder, adapterDiskBytes(used, adapter_folder)});
    return checkSpace(uses);
  });
}

const char *mebp_session_notes(const mebp_session *session) { return session ? session->session.notes.c_str() : ""; }

mebp_code mebp_state_steps(const char *folder, uint64_t *steps, mebp_error *error) {
  return guarded(error, {{"folder", folder}, {"steps", steps}}, [&] { return readStateSteps(folder, *steps); });
}

mebp_code mebp_session_load_state(mebp_session *session, const char *folder, void *user, uint64_t *user_bytes,
                                  mebp_error *error) {
  return withSession(session, error, {{"folder", folder}}, [&](Session &used) {
    Status status = user ? checkArguments({{"user_bytes", user_bytes}}) : Status();
    if (status.ok())
      status = loadState(used, folder, user, user_bytes);
    session->steps = used.trainables.stepsDone;
    return status;
  });
}
