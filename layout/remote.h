// SPDX-License-Identifier: Apache-2.0
//
// Where what a block's programs give each other lies: the REMOTE ports of a layer whose adapter may be in another
// place, and the KEPT ones of a forward that saves its backward work. What a backward reads again is kept for each
// block, the rest has one place for all. What several blocks share has a place of its own as long as a step lasts, and
// so has its cotangent, which their backwards add up. In generation it is in the state of the block that gives it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/facts.h"
#include "layout/region.h"

namespace mebp::layout {

struct RemoteValue {
  format::Port::Kind kind = format::Port::REMOTE;
  std::string name;
  uint64_t offset = 0; // in the session's memory
  uint64_t rowBytes = 0;

  bool isOf(format::Port::Kind wanted, std::string_view named) const { return kind == wanted && name == named; }
};

struct RemotePlan {
  std::vector<std::vector<RemoteValue>> blocks;
  uint64_t sums = 0, sumBytes = 0; // the cotangents of what is shared: zeros when the backwards begin
};

// Of the programs that generate text, or of the others. Without gradients nothing is kept.
RemotePlan planRemote(const Facts &facts, bool generates, bool hasGradients, bool isApart, Region &memory);

} // namespace mebp::layout
