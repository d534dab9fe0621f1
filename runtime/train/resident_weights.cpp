// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/resident_weights.h"

#include <algorithm>
#include <functional>

#include "format/container.h"
#include "format/storage.h"

namespace mebp {

// Calls take(offset, bytes) for each stretch of the file that holds a block's weights: its region, and any other where
// a weight lies that an earlier block has bound already. `except`: weights that are left out.
template <typename Take>
static void forEachStretch(const format::Bundle &bundle, uint32_t block, Take take,
                           const std::vector<bool> &except = {}) {
  uint64_t begin = 0, end = 0;
  auto add = [&](uint64_t offset, uint64_t bytes) {
    if (end == 0 || offset < end || offset - end >= format::regionAlignment) {
      if (end)
        take(begin, end - begin);
      begin = offset;
    }
    end = offset + bytes;
  };
  for (const format::Parameter &parameter : bundle.blocks(static_cast<int>(block)).parameters()) {
    if (!parameter.has_weight() || (!except.empty() && except[parameter.weight()]))
      continue;
    const format::Weight &weight = bundle.weights(static_cast<int>(parameter.weight()));
    const format::StoredSize size = format::storedSize(weight);
    add(weight.data_offset(), size.dataBytes);
    if (!size.groupBytes)
      continue;
    add(weight.scales_offset(), size.groupBytes);
    add(weight.minima_offset(), size.groupBytes);
  }
  if (end)
    take(begin, end - begin);
}

static bool isLayer(const format::Bundle &bundle, uint32_t block) {
  return block > 0 && block + 1 < static_cast<uint32_t>(bundle.blocks_size());
}

static Status tooLow(uint64_t limit, const WeightReads &reads, const std::string &block) {
  constexpr uint64_t kibibyte = 1024;
  return failure(MEBP_INVALID_ARGUMENT,
                 "a resident limit of %llu bytes is less than the weights that '%s' of block '%s' reads at once; give "
                 "at least %lluKiB",
                 static_cast<unsigned long long>(limit), reads.kernel.c_str(), block.c_str(),
                 static_cast<unsigned long long>(reads.windows * format::residencyWindow / kibibyte));
}

Status ResidentWeights::create(const Bundle &bundle, uint64_t bytes, bool isOfPlan, void *memory) {
  owner = &bundle;
  limit = bytes;
  ofExperts.assign(static_cast<size_t>(bundle.content().weights_size()), false);
  for (const format::Block &block : bundle.content().blocks()) {
    const std::vector<bool> found = findExpertWeights(bundle.content(), block);
    std::transform(found.begin(), found.end(), ofExperts.begin(), ofExperts.begin(), std::logical_or<>());
  }
  limitOfPlan = isOfPlan;
  if (!limit)
    return Status();
  const format::Bundle &content = bundle.content();
  uint64_t windows = limit / format::residencyWindow, largestLayer = 0;
  WeightReads largest;
  const format::Block *reader = nullptr;
  for (uint32_t i = 0; i < static_cast<uint32_t>(content.blocks_size()); ++i) {
    const format::Block &block = content.blocks(static_cast<int>(i));
    for (const format::ProgramTraits &use : format::knownPrograms) {
      if (use.is(format::GivesLogits))
        continue;
      WeightReads reads = largestWeightReads(content, block, programOf(block, use.name));
      if (reads.windows > largest.windows) {
        largest = reads;
        reader = &block;
      }
    }
    uint64_t all = 0;
    forEachStretch(content, i, [&](uint64_t, uint64_t stretch) { all += format::windowsOf(stretch); });
    if (isLayer(content, i))
      largestLayer = std::max(largestLayer, all);
  }
  if (largest.windows > windows)
    return tooLow(limit, largest, reader->name());
  roomForTwo = 2 * largestLayer <= windows;
  const format::Block &head = *content.blocks().rbegin();
  logitsReads = largestWeightReads(content, head, programOf(head, format::logitsProgram));
  residency.begin(bundle.mappedWeights(), limit, memory);
  return Status();
}

// Layers alone: of the embedding few rows are read, and the head's matrix may be larger than memory. Of experts, those
// that tokens go to, whichever these will be.
void ResidentWeights::readAhead(uint32_t block, uint32_t next) {
  const format::Bundle &content = owner->content();
  if (!roomForTwo || next >= static_cast<uint32_t>(content.blocks_size()) || !isLayer(content, next))
    return;
  const MappedFile &weights = owner->mappedWeights();
  auto use = [&](uint64_t offset, uint64_t bytes) { residency.use(weights.data() + offset, bytes); };
  auto advise = [&](uint64_t offset, uint64_t bytes) { weights.adviseIn(offset, bytes); };
  if (!limit)
    return forEachStretch(content, next, advise, ofExperts);
  // What runs now is older than what ran before, and would have to go first.
  if (isLayer(content, block))
    forEachStretch(content, block, use);
  forEachStretch(content, next, use);
}

// Training walks the head's matrix in tiles, the program for logits reads it whole.
bool ResidentWeights::fitsLogits() const { return !limit || logitsReads.windows * format::residencyWindow <= limit; }

// A plan's limit is meant for training; logits go over it where they must.
Residency *ResidentWeights::limiting(std::string_view program) {
  bool givesLogits = program == format::logitsProgram || program == format::decodeLogitsProgram;
  return limit && (!givesLogits || fitsLogits()) ? &residency : nullptr;
}

Status ResidentWeights::checkLogits() const {
  if (fitsLogits() || limitOfPlan)
    return Status();
  return tooLow(limit, logitsReads, owner->content().blocks().rbegin()->name());
}

} // namespace mebp
