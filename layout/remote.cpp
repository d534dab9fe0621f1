// SPDX-License-Identifier: Apache-2.0
#include "layout/remote.h"

#include <algorithm>

namespace mebp::layout {

namespace {

// What several blocks share, each name once.
struct SharedPlaces {
  std::vector<RemoteValue> values;

  RemoteValue *find(std::string_view name) {
    for (RemoteValue &value : values)
      if (value.name == name)
        return &value;
    return nullptr;
  }
};

SharedPlaces planShared(const Facts &facts, bool hasGradients, RemotePlan &plan, Region &memory) {
  SharedPlaces places;
  for (const bool isSum : {false, true}) {
    const uint64_t begin = memory.total();
    for (const auto &block : facts.blocks)
      for (const Passed &passed : block->training.passed)
        if (passed.kind == format::Port::SHARED && format::isCotangent(passed.name) == isSum &&
            (hasGradients || passed.isForward) && !places.find(passed.name))
          places.values.push_back(
              {passed.kind, passed.name, memory.take(Owner::Shared, passed.bytes), passed.rowBytes});
    if (isSum)
      plan.sums = begin, plan.sumBytes = memory.total() - begin;
  }
  return places;
}

} // namespace

RemotePlan planRemote(const Facts &facts, bool generates, bool hasGradients, bool isApart, Region &memory) {
  RemotePlan plan;
  SharedPlaces places;
  if (!generates)
    places = planShared(facts, hasGradients, plan, memory);
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
      if (passed.kind == format::Port::SHARED) {
        const RemoteValue *known = places.find(passed.name);
        plan.blocks.back().push_back(known ? *known : RemoteValue{passed.kind, passed.name, 0, 0});
        passing.back().push_back(false);
        continue;
      }
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
