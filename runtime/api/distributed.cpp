// SPDX-License-Identifier: Apache-2.0
//
// What several sessions need to share one model's training, beside the callbacks of their options.
#include "mebp/distributed.h"

#include <algorithm>

#include "format/optimizers.h"
#include "layout/trainables.h"
#include "runtime/api/handle.h"
#include "runtime/bundle/weight_regions.h"
#include "runtime/train/state.h"

using namespace mebp;

static Status noSuchPart(uint32_t index, uint32_t count) {
  return failure(MEBP_INVALID_ARGUMENT, "part %u does not exist; there are %u, and the first one is 0", index, count);
}

mebp_code mebp_bundle_own_part(const mebp_bundle *bundle, uint32_t index, uint32_t count, bool *owned,
                               mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"owned", owned}}, [&] {
    if (index >= count)
      return noSuchPart(index, count);
    const auto part = layout::partOf(layout::factsOf(bundle->bundle.content()), nullptr, index, count);
    std::transform(part.begin(), part.end(), owned, [](const layout::ElementRange &of) { return of.count() > 0; });
    return Status();
  });
}

mebp_code mebp_bundle_own_elements(const mebp_bundle *bundle, mebp_optimizer optimizer, uint32_t index, uint32_t count,
                                   mebp_range *owned, mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"owned", owned}}, [&] {
    const format::OptimizerTraits *traits = format::findOptimizer(optimizer);
    if (!traits)
      return failure(MEBP_INVALID_ARGUMENT, "there is no optimizer %d; take one of mebp_optimizer", optimizer);
    if (index >= count)
      return noSuchPart(index, count);
    const auto part = layout::partOf(layout::factsOf(bundle->bundle.content()), traits, index, count);
    std::transform(part.begin(), part.end(), owned,
                   [](const layout::ElementRange &of) { return mebp_range{of.begin, of.end}; });
    return Status();
  });
}

uint64_t mebp_norm_tile(uint64_t elements) { return format::normTile(elements); }

mebp_code mebp_session_join_states(const mebp_session *session, const char *folder, const char *const *parts,
                                   uint32_t count, const void *user, uint64_t user_bytes, mebp_error *error) {
  return withSession(session, error, {{"folder", folder}, {"parts", parts}}, [&](const Session &used) {
    if (Status status = user_bytes ? checkArguments({{"user", user}}) : Status(); !status.ok())
      return status;
    return joinStates(used.engine, folder, {parts, parts + count}, user, user_bytes);
  });
}

mebp_code mebp_session_trainable_values(mebp_session *session, const char *name, void **values, uint64_t *bytes,
                                        mebp_error *error) {
  return withSession(session, error, {{"name", name}, {"values", values}, {"bytes", bytes}}, [&](const Session &used) {
    const Trainables &trainables = used.engine.trainables;
    if (trainables.areWeightsFiled())
      return failure(MEBP_UNSUPPORTED, "the trainables are in a file, and have no place in memory; leave out "
                                       "state_in_file, or read and write copies");
    for (uint32_t i = 0; i < trainables.count(); ++i) {
      if (trainables.nameOf(i) != name)
        continue;
      *values = trainables.valuesOf(i, *bytes);
      return Status();
    }
    return failure(MEBP_NOT_FOUND, "there is no trainable '%s'; mebp_bundle_trainable_info has their names", name);
  });
}

mebp_code mebp_bundle_block_region(const mebp_bundle *bundle, uint32_t block, uint64_t *offset, uint64_t *bytes,
                                   mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"offset", offset}, {"bytes", bytes}}, [&] {
    const format::Bundle &content = bundle->bundle.content();
    const auto blocks = static_cast<uint32_t>(content.blocks_size());
    if (block >= blocks)
      return failure(MEBP_INVALID_ARGUMENT, "block %u does not exist; the bundle has %u", block, blocks);
    const WeightRegion region = WeightRegions(content).of(block);
    *offset = region.offset;
    *bytes = region.bytes;
    return Status();
  });
}
