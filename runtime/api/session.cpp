// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about sessions: how one is made, and what of it is read and saved. step.cpp has what it runs.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "layout/layout.h"
#include "runtime/adapter/adapter.h"
#include "runtime/adapter/gguf_file.h"
#include "runtime/api/handle.h"
#include "runtime/core/files.h"
#include "runtime/train/options.h"
#include "runtime/train/state.h"

using namespace mebp;

static Status readOptions(const mebp_session_options *given, mebp_session_options &own) {
  mebp_session_options_init(&own);
  return readSized("mebp_session_options", given, own);
}

// Bytes: of a session's memory, and what a device of its own has beside it. 0 where a session could not be made.
struct SessionBytes {
  uint64_t memory = 0, device = 0;
};

static SessionBytes bytesOf(const mebp_bundle *bundle, const mebp_session_options *given) {
  mebp_session_options options;
  if (!bundle || !given || !readOptions(given, options).ok())
    return {};
  const format::Bundle &content = bundle->bundle.content();
  const mebp_session_options followed = followPlan(content, options);
  if (!checkSessionOptions(content, options, followed).ok() || !checkTrainables(content, followed).ok())
    return {};
  Result<std::unique_ptr<Backend>> backend = makeBackendOf(followed);
  if (!backend.ok())
    return {};
  Result<MemoryCheck> check = MemoryCheck::make((*backend)->followsPlacements());
  if (!check.ok())
    return {};
  const layout::Choice choice = choiceOf(content, followed, **backend, *check);
  return {layout::planSession(layout::factsOf(content), choice).total(), plannedDeviceBytes(content.plan(), choice)};
}

uint64_t mebp_session_memory_bytes(const mebp_bundle *bundle, const mebp_session_options *options) {
  return unlessOutOfMemory([&] { return bytesOf(bundle, options).memory; }, [] { return uint64_t(0); });
}

uint64_t mebp_session_peak_bytes(const mebp_bundle *bundle, const mebp_session_options *options) {
  return unlessOutOfMemory(
      [&] {
        const SessionBytes bytes = bytesOf(bundle, options);
        return bytes.memory ? bundle->bundle.content().plan().process_bytes() + bytes.memory + bytes.device : 0;
      },
      [] { return uint64_t(0); });
}

static Status openSession(mebp_session &handle, std::unique_ptr<Session> &out) {
  auto created = std::make_unique<Session>(handle.lasting);
  Status status = created->create(handle.bundle->bundle, handle.options);
  if (status.ok())
    out = std::move(created);
  return status;
}

mebp_code mebp_session_create(mebp_bundle *bundle, const mebp_session_options *options, mebp_session **out,
                              mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"bundle", bundle}, {"options", options}, {"out", out}}, [&] {
    auto created = std::make_unique<mebp_session>();
    Status status = readOptions(options, created->options);
    if (status.ok()) {
      created->bundle = bundle;
      if (created->options.spill_folder)
        created->options.spill_folder = (created->spillFolder = created->options.spill_folder).c_str();
      const auto count = static_cast<size_t>(bundle->bundle.content().trainables_size());
      if (const mebp_range *owned = created->options.owned_elements) {
        created->ownedElements.assign(owned, owned + count);
        created->options.owned_elements = created->ownedElements.data();
      }
      if (const bool *owned = created->options.owned) {
        created->owned = std::make_unique<bool[]>(count);
        created->options.owned = std::copy(owned, owned + count, created->owned.get()) - count;
      }
      status = openSession(*created, created->session);
    }
    if (status.ok())
      created->tell(*created->session);
    if (status.ok())
      *out = created.release();
    return status;
  });
}

void mebp_session_destroy(mebp_session *session) { delete session; }

mebp_code mebp_session_set_learning_rate(mebp_session *session, double learning_rate, mebp_error *error) {
  return withSession(session, error, {},
                     [&](Session &used) { return used.engine.trainables.setLearningRate(learning_rate); });
}

mebp_code mebp_session_set_embedding_learning_rate(mebp_session *session, double learning_rate, mebp_error *error) {
  return withSession(session, error, {},
                     [&](Session &used) { return used.engine.trainables.setEmbeddingLearningRate(learning_rate); });
}

uint64_t mebp_session_steps(const mebp_session *session) { return session ? session->steps.load() : 0; }

mebp_code mebp_session_refreshes(const mebp_session *session, uint64_t *made, uint64_t *of_fixed_interval,
                                 mebp_error *error) {
  return withSession(session, error, {{"made", made}, {"of_fixed_interval", of_fixed_interval}},
                     [&](const Session &used) {
                       used.engine.trainables.countRefreshes(*made, *of_fixed_interval);
                       return Status();
                     });
}

mebp_code mebp_session_count_crossed(const mebp_session *session, mebp_session_crossed *out, mebp_error *error) {
  return withSession(session, error, {{"out", out}}, [&](const Session &used) {
    return writeSized(used.engine.otherHalf.countCrossed(), out), Status();
  });
}

const char *mebp_session_kernels(const mebp_session *session) { return session ? session->kernels.load() : nullptr; }

static Status checkCount(const Session &session, uint32_t index, uint64_t count, uint64_t needed) {
  if (count == needed)
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "'%s' has %llu elements, not %llu",
                 session.engine.trainables.nameOf(index).c_str(), static_cast<unsigned long long>(needed),
                 static_cast<unsigned long long>(count));
}

static Status checkIndex(const Session &session, uint32_t index) {
  if (index >= session.engine.trainables.count())
    return failure(MEBP_INVALID_ARGUMENT, "trainable %u does not exist; the bundle has %u", index,
                   session.engine.trainables.count());
  return Status();
}

static Status checkTrainable(const Session &session, uint32_t index, uint64_t count) {
  Status status = checkIndex(session, index);
  return status.ok() ? checkCount(session, index, count, session.engine.trainables.elements(index)) : status;
}

mebp_code mebp_session_read_trainable(const mebp_session *session, uint32_t index, float *out, uint64_t count,
                                      mebp_error *error) {
  return withSession(session, error, {{"out", out}}, [&](const Session &used) {
    Status status = checkTrainable(used, index, count);
    return status.ok() ? used.engine.trainables.read(index, out) : status;
  });
}

mebp_code mebp_session_write_trainable(mebp_session *session, uint32_t index, const float *values, uint64_t count,
                                       mebp_error *error) {
  return withSession(session, error, {{"values", values}}, [&](Session &used) {
    Status status = checkTrainable(used, index, count);
    return status.ok() ? used.engine.trainables.write(index, values) : status;
  });
}

mebp_code mebp_session_read_gradient(const mebp_session *session, uint32_t index, float *out, uint64_t count,
                                     mebp_error *error) {
  return withSession(session, error, {{"out", out}}, [&](const Session &used) {
    if (Status status = checkIndex(used, index); !status.ok())
      return status;
    if (Status status = checkCount(used, index, count, used.engine.trainables.gradientElements(index)); !status.ok())
      return status;
    if (!used.engine.held.gradients)
      return failure(MEBP_INVALID_ARGUMENT,
                     "there is no gradient yet; create the session with return_gradients and run a step first");
    std::memcpy(out, used.engine.lane().gradients.of(index), count * sizeof(float));
    return Status();
  });
}

mebp_code mebp_session_save_adapter(const mebp_session *session, const char *folder, mebp_error *error) {
  return withSession(session, error, {{"folder", folder}},
                     [&](const Session &used) { return saveAdapter(used.engine, folder); });
}

mebp_code mebp_session_save_adapter_gguf(const mebp_session *session, const char *path, mebp_error *error) {
  return withSession(session, error, {{"path", path}},
                     [&](const Session &used) { return saveAdapterGguf(used.engine, path); });
}

mebp_code mebp_session_load_adapter(mebp_session *session, const char *folder, mebp_error *error) {
  return withSession(session, error, {{"folder", folder}},
                     [&](Session &used) { return loadAdapter(used.engine, folder); });
}

mebp_code mebp_session_save_state(const mebp_session *session, const char *folder, const void *user,
                                  uint64_t user_bytes, mebp_error *error) {
  return withSession(session, error, {{"folder", folder}}, [&](const Session &used) {
    Status status = user_bytes ? checkArguments({{"user", user}}) : Status();
    return status.ok() ? saveState(used.engine, folder, user, user_bytes) : status;
  });
}

bool mebp_session_is_poisoned(const mebp_session *session) {
  return session && session->session && !session->session->engine.trainables.checkSaves().ok();
}

mebp_code mebp_session_check_space(const mebp_session *session, const char *state_folder, const char *adapter_folder,
                                   mebp_error *error) {
  return withSession(session, error, {}, [&](const Session &used) {
    std::vector<DiskUse> uses;
    if (state_folder)
      uses.push_back({state_folder, stateDiskBytes(used.engine, state_folder)});
    if (Status status = adapter_folder ? checkLora(used.engine) : Status(); !status.ok())
      return status;
    if (adapter_folder)
      uses.push_back({adapter_folder, adapterDiskBytes(used.engine, adapter_folder)});
    return checkSpace(uses);
  });
}

const char *mebp_session_notes(const mebp_session *session) { return session ? session->notes.load() : ""; }

mebp_code mebp_state_steps(const char *folder, uint64_t *steps, mebp_error *error) {
  return guarded(error, {{"folder", folder}, {"steps", steps}}, [&] { return readStateSteps(folder, *steps); });
}

mebp_code mebp_session_load_state(mebp_session *session, const char *folder, void *user, uint64_t *user_bytes,
                                  mebp_error *error) {
  return withSession(session, error, {{"folder", folder}}, [&](Session &used) {
    Status status = user ? checkArguments({{"user_bytes", user_bytes}}) : Status();
    if (status.ok())
      status = loadState(used.engine, folder, user, user_bytes);
    if (status.ok())
      session->tell(used);
    session->steps = used.engine.trainables.steps();
    return status;
  });
}

static Status checkPauses(const mebp_session &handle) {
  if (handle.generations)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a generation of the session has memory of it; destroy that before the session is paused");
  if (handle.options.trace_file)
    return failure(MEBP_INVALID_ARGUMENT,
                   "a session with trace_file cannot be paused: its trace would begin again; create it without");
  return Status();
}

mebp_code mebp_session_pause(mebp_session *session, const char *folder, const void *user, uint64_t user_bytes,
                             mebp_error *error) {
  return withSession(session, error, {{"folder", folder}}, [&](const Session &used) {
    Status status = checkPauses(*session);
    if (status.ok() && user_bytes)
      status = checkArguments({{"user", user}});
    if (status.ok())
      status = saveState(used.engine, folder, user, user_bytes);
    if (!status.ok())
      return status;
    session->pausedIn = folder;
    session->session.reset();
    session->kernels = session->notes = "";
    session->bundle->bundle.dropWeights();
    return status;
  });
}

mebp_code mebp_session_resume(mebp_session *session, mebp_error *error) {
  return withHandle(session, error, {}, [&] {
    if (session->session)
      return failure(MEBP_INVALID_ARGUMENT, "the session is not paused; it has its memory");
    std::unique_ptr<Session> opened;
    if (Status status = openSession(*session, opened); !status.ok())
      return status;
    if (Status status = loadState(opened->engine, session->pausedIn, nullptr, nullptr); !status.ok())
      return status;
    if (opened->engine.trainables.steps() != session->steps)
      return failure(MEBP_INCOMPATIBLE,
                     "%s: has the state of step %llu, and the session was paused after step %llu; put that state back",
                     session->pausedIn.c_str(), static_cast<unsigned long long>(opened->engine.trainables.steps()),
                     static_cast<unsigned long long>(session->steps));
    session->session = std::move(opened);
    session->tell(*session->session);
    return Status();
  });
}

bool mebp_session_is_paused(const mebp_session *session) { return session && !session->session; }
