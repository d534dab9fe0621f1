// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions that generate text.
#include "runtime/generate/generation.h"

#include <memory>

#include "runtime/api/handle.h"
#include "runtime/generate/draft.h"
#include "runtime/train/options.h"

using namespace mebp;

struct mebp_generation {
  mebp_session *session;
  Generation generation;
};

uint64_t mebp_generation_memory_bytes(const mebp_bundle *bundle, const mebp_session_options *options) {
  return unlessOutOfMemory(
      [&]() -> uint64_t {
        mebp_session_options own;
        mebp_session_options_init(&own);
        if (!bundle || !options || !readSized("mebp_session_options", options, own).ok() ||
            bundle->bundle.content().model().positions() == 0)
          return 0;
        const mebp_session_options followed = followPlan(bundle->bundle.content(), own);
        if (!checkSessionOptions(bundle->bundle.content(), own, followed).ok())
          return 0;
        Result<std::unique_ptr<Backend>> backend = makeBackendOf(followed);
        if (!backend.ok())
          return 0;
        return layout::planGeneration(layout::factsOf(bundle->bundle.content()), !(*backend)->followsPlacements())
            .total();
      },
      [] { return uint64_t(0); });
}

mebp_code mebp_generation_create(mebp_session *session, mebp_generation **out, mebp_error *error) {
  if (out)
    *out = nullptr;
  return withSession(session, error, {{"out", out}}, [&](Session &used) {
    auto created = std::make_unique<mebp_generation>();
    created->session = session;
    Status status = created->generation.create(used.engine);
    if (status.ok()) {
      ++session->generations;
      *out = created.release();
    }
    return status;
  });
}

void mebp_generation_destroy(mebp_generation *generation) {
  if (generation)
    --generation->session->generations;
  delete generation;
}

// Runs `body` on a generation, whose session no other thread may use meanwhile.
template <typename Body>
static mebp_code generates(mebp_generation *generation, mebp_error *error, std::initializer_list<Argument> arguments,
                           const Body &body) {
  if (!generation)
    return guarded(error, {{"generation", nullptr}}, [] { return Status(); });
  return withSession(generation->session, error, arguments, [&](Session &used) {
    used.engine.cancellation.heed(true);
    Status status = body(generation->generation);
    if (status.code() == MEBP_CANCELLED)
      used.engine.cancellation.settle();
    return status;
  });
}

mebp_code mebp_generation_append(mebp_generation *generation, const int32_t *ids, uint32_t batch, uint32_t count,
                                 float *logits, mebp_error *error) {
  return generates(generation, error, {{"ids", ids}},
                   [&](Generation &used) { return used.append(ids, batch, count, logits); });
}

mebp_code mebp_generation_rewind(mebp_generation *generation, uint32_t positions, uint32_t *kept, mebp_error *error) {
  return generates(generation, error, {{"kept", kept}}, [&](Generation &used) {
    Status status = used.rewind(positions);
    *kept = used.positions();
    return status;
  });
}

mebp_code mebp_generation_spread(mebp_generation *generation, uint32_t batch, mebp_error *error) {
  return generates(generation, error, {}, [&](Generation &used) { return used.spread(batch); });
}

uint32_t mebp_generation_positions(const mebp_generation *generation) {
  return generation ? generation->generation.positions() : 0;
}

uint32_t mebp_draft_find(const int32_t *ids, uint32_t count, int32_t *out, uint32_t wanted) {
  return ids && out ? findDraft(ids, count, out, wanted) : 0;
}

mebp_code mebp_generation_append_draft(mebp_generation *generation, const int32_t *ids, uint32_t count,
                                       mebp_error *error) {
  return generates(generation, error, {{"ids", ids}}, [&](Generation &used) { return used.appendDraft(ids, count); });
}

mebp_code mebp_generation_draft_logits(mebp_generation *generation, uint32_t index, float *logits, mebp_error *error) {
  return generates(generation, error, {{"logits", logits}},
                   [&](Generation &used) { return used.draftLogits(index, logits); });
}

uint32_t mebp_generation_draft_limit(const mebp_generation *generation) {
  return generation ? generation->generation.mostDrafted() : 0;
}
