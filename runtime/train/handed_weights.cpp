// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/handed_weights.h"

#include <algorithm>

#include "format/container.h"
#include "format/storage.h"

namespace mebp {

void HandedWeights::create(const Bundle &opened, const mebp_session_options &options, Backend &running,
                           const Buffers &ofSession, std::vector<Visit> ofStep) {
  bundle = &opened;
  buffers = &ofSession;
  callback = options.on_block;
  onReady = options.on_block_ready;
  user = options.block_user;
  backend = &running;
  ahead = options.blocks_ahead;
  visits = std::move(ofStep);
  regions = WeightRegions(opened.content());
  held.resize(static_cast<size_t>(opened.content().blocks_size()));
  wanted.resize(held.size());
  beginWalk(false);
}

void HandedWeights::beginWalk(bool isForwardOnly) {
  at = 0;
  end = isForwardOnly ? held.size() : visits.size();
}

Status HandedWeights::ask(uint32_t block, size_t visit) {
  const void *given = nullptr;
  const uint32_t next = visit + 1 < end ? visits[visit + 1].block : MEBP_NO_BLOCK;
  const std::string &name = bundle->content().blocks(static_cast<int>(block)).name();
  const mebp_code code = callback(user, block, visits[visit].direction, next, &given);
  if (code != MEBP_OK)
    return failure(code, "on_block has failed at '%s'", name.c_str());
  held[block].isAsked = true;
  held[block].isThere = false;
  const WeightRegion &region = regions.of(block);
  if (reinterpret_cast<uintptr_t>(given) % format::regionAlignment != 0)
    return failure(MEBP_INVALID_ARGUMENT, "the address that on_block gave for '%s' is not a multiple of %llu",
                   name.c_str(), static_cast<unsigned long long>(format::regionAlignment));
  if (given)
    held[block].buffer = backend->take(const_cast<void *>(given), region.bytes, Access::Constant);
  else if (!bundle->hasWeights(region.offset, region.bytes))
    return failure(MEBP_NOT_FOUND, "on_block gave no weights for '%s', and the bundle's file does not have them",
                   name.c_str());
  return Status();
}

Status HandedWeights::await(uint32_t block) {
  if (!onReady || held[block].buffer == noBuffer || held[block].isThere)
    return Status();
  held[block].isThere = true;
  const mebp_code code = onReady(user, block);
  return code == MEBP_OK ? Status()
                         : failure(code, "on_block_ready has failed at '%s'",
                                   bundle->content().blocks(static_cast<int>(block)).name().c_str());
}

Status HandedWeights::free(uint32_t block) {
  Region &region = held[block];
  const auto [offset, bytes] = regions.of(block);
  region.isAsked = false;
  if (region.buffer != noBuffer)
    backend->giveBack(region.buffer);
  else if (bundle->hasWeights(offset, bytes)) // what was read of the file goes, too
    bundle->mappedWeights().adviseOut(offset, bytes);
  region.buffer = noBuffer;
  const mebp_code code = callback(user, block, MEBP_FORWARD, MEBP_NO_BLOCK, nullptr);
  return code == MEBP_OK ? Status()
                         : failure(code, "on_block has failed when it was told that '%s' is free",
                                   bundle->content().blocks(static_cast<int>(block)).name().c_str());
}

Status HandedWeights::enter(const Visit &visit) {
  const auto begin = visits.begin() + static_cast<ptrdiff_t>(at), last = visits.begin() + static_cast<ptrdiff_t>(end);
  auto found = std::find(begin, last, visit);
  if (found == last) { // of a walk that goes over some blocks again
    end = visits.size();
    found = std::find(visits.begin(), visits.end(), visit);
  }
  at = static_cast<size_t>(found - visits.begin());
  const size_t behind = std::min<size_t>(at + ahead + 1, end);
  std::fill(wanted.begin(), wanted.end(), false);
  for (size_t i = at; i < behind; ++i)
    for (uint32_t block : regions.readBy(visits[i].block))
      wanted[block] = true;
  for (uint32_t block = 0; block < held.size(); ++block)
    if (held[block].isAsked && !wanted[block])
      if (Status status = free(block); !status.ok())
        return status;
  for (size_t i = at; i < behind; ++i)
    for (uint32_t block : regions.readBy(visits[i].block))
      if (!held[block].isAsked)
        if (Status status = ask(block, i); !status.ok())
          return status;
  for (uint32_t block : regions.readBy(visits[at].block))
    if (Status status = await(block); !status.ok())
      return status;
  return Status();
}

Status HandedWeights::release() {
  Status first;
  for (uint32_t block = 0; block < held.size(); ++block)
    if (held[block].isAsked)
      if (Status status = free(block); first.ok())
        first = status;
  return first;
}

Binding HandedWeights::find(uint32_t weight) const {
  const format::Weight &stored = bundle->content().weights(static_cast<int>(weight));
  const uint32_t block = regions.blockOf(weight);
  const Buffer buffer = held[block].buffer;
  auto place = [&](uint64_t offset) {
    return buffer == noBuffer ? buffers->find(bundle->mappedWeights().data() + offset)
                              : Place{buffer, offset - regions.of(block).offset};
  };
  if (!isQuantised(format::storageOf(stored.element())))
    return {place(stored.data_offset()), {}, {}};
  return {place(stored.data_offset()), place(stored.scales_offset()), place(stored.minima_offset())};
}

} // namespace mebp
