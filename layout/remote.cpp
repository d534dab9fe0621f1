// SPDX-License-Identifier: Apache-2.0
#include "layout/remote.h"

#include <algorithm>

namespace mebp::layout {

RemotePlan planRemote(const Facts &facts, bool generates, bool hasGradients, bool isApart, Region &memory) {
  RemotePlan plan;
  std::vector<std::vector<bool>> passing;
  uint64_t most = 0;
  Placer shared;
  for (const auto &block : facts.blocks) {
    if (!isApart)
      shared = Placer();
    plan.blocks.emplace_back();
    passing.emplace_back();
    for (const Passed &passed : block->programs(generates).passed) {
      if (!hasGradients && !passed.isForward)
        continue;
      const bool isKept = hasGradients && passed.isReadAgain;
      const Owner owner = passed.kind == format::Port::KEPT ? Owner::Kept : Owner::Remote;
      const uint64_t offset = isKept ? memory.take(owner, passed.bytes) : shared.take(passed.bytes);
      plan.blocks.back().push_back({passed.kind, passed.name, offset, passed.rowBytes});
      passing.back().push_back(!isKept);
    }
    most = std::max(most, shared.total());
  }
  const uint64_t begin = memory.take(Owner::Remote, most);
  for (size_t block = 0; block < passing.size(); ++block)
    for (size_t i = 0; i < passing[block].size(); ++i)
      if (passing[block][i])
        plan.blocks[block][i].offset += begin;
  return plan;
}

} // namespace mebp::layout
