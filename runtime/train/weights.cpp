// SPDX-License-Identifier: Apache-2.0
//
// Which weights are in memory: those of the next block are read while one runs, and a limit holds for all.
#include <algorithm>

#include "format/container.h"
#include "format/storage.h"
#include "runtime/bundle/programs.h"
#include "runtime/train/session.h"

namespace mebp {

// Calls take(offset, bytes) for each stretch of the file that holds a block's weights: its region, and any other where
// a weight lies that an earlier block has bound already.
template <typename Take>
static void forEachStretch(const format::Bundle &bundle, const format::Block &block, Take take) {
  uint64_t begin = 0, end = 0;
  auto add = [&](uint64_t offset, uint64_t bytes) {
    if (end == 0 || offset < end || offset - end >= format::regionAlignment) {
      if (end)
        take(begin, end - begin);
      begin = offset;
    }
    end = offset + bytes;
  };
  for (const format::Parameter &parameter : block.parameters()) {
    if (!parameter.has_weight())
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

Status tooLow(uint64_t limit, const WeightReads &reads, const std::string &block) {
  constexpr uint64_t kibibyte = 1024;
  return failure(MEBP_INVALID_ARGUMENT,
                 "a resident limit of %llu bytes is less than the weights that '%s' of block '%s' reads at once; give "
                 "at least %lluKiB",
                 static_cast<unsigned long long>(limit), reads.kernel.c_str(), block.c_str(),
                 static_cast<unsigned long long>(reads.windows * format::residencyWindow / kibibyte));
}

Status Session::limitWeights() {
  if (!settings.resident_limit)
    return Status();
  const format::Bundle &content = owner->content();
  uint64_t limit = settings.resident_limit / format::residencyWindow, layer = 0;
  WeightReads largest;
  const format::Block *reader = nullptr;
  for (const format::Block &block : content.blocks()) {
    for (ProgramUse use : {ProgramUse::Forward, ProgramUse::Backward, ProgramUse::Objective, ProgramUse::Loss}) {
      WeightReads reads = largestWeightReads(content, block, programOf(block, use));
      if (reads.windows > largest.windows) {
        largest = reads;
        reader = &block;
      }
    }
    uint64_t windows = 0;
    forEachStretch(content, block, [&](uint64_t, uint64_t bytes) { windows += format::windowsOf(bytes); });
    if (block.kind() == format::Block::LAYER)
      layer = std::max(layer, windows);
  }
  if (largest.windows > limit)
    return tooLow(settings.resident_limit, largest, reader->name());
  roomForTwo = 2 * layer <= limit;
  const format::Block &head = content.blocks(content.blocks_size() - 1);
  logitsReads = largestWeightReads(content, head, programOf(head, ProgramUse::Logits));
  residency.begin(owner->mappedWeights(), settings.resident_limit, at<void>(layout.residency));
  return Status();
}

// Training walks the head's matrix in tiles, the program for logits reads it whole.
bool Session::logitsFitLimit() const {
  return !settings.resident_limit || logitsReads.windows * format::residencyWindow <= settings.resident_limit;
}

// Layers alone: of the embedding few rows are read, and the head's matrix may be larger than memory.
void Session::readAhead(uint32_t block, uint32_t next) {
  const format::Bundle &content = owner->content();
  if (!roomForTwo || next >= blocks.size() || content.blocks(static_cast<int>(next)).kind() != format::Block::LAYER)
    return;
  const MappedFile &weights = owner->mappedWeights();
  auto use = [&](uint64_t offset, uint64_t bytes) { residency.use(weights.data() + offset, bytes); };
  auto advise = [&](uint64_t offset, uint64_t bytes) { weights.adviseIn(offset, bytes); };
  if (!settings.resident_limit)
    return forEachStretch(content, content.blocks(static_cast<int>(next)), advise);
  // What runs now is older than what ran before, and would have to go first.
  if (content.blocks(static_cast<int>(block)).kind() == format::Block::LAYER)
    forEachStretch(content, content.blocks(static_cast<int>(block)), use);
  forEachStretch(content, content.blocks(static_cast<int>(next)), use);
}

} // namespace mebp
