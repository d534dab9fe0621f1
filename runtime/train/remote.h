// SPDX-License-Identifier: Apache-2.0
//
// Finds what a block's programs give each other, and other blocks.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "layout/remote.h"

namespace mebp {

class Remote {
public:
  void create(layout::RemotePlan planned, unsigned char *sessionMemory) {
    plan = std::move(planned);
    memory = sessionMemory;
  }
  const layout::RemoteValue &find(uint32_t block, std::string_view name) const {
    return find(block, format::Port::REMOTE, name);
  }
  const layout::RemoteValue &find(uint32_t block, format::Port::Kind kind, std::string_view name) const;
  void *at(uint32_t block, const format::Port &port) const {
    return memory + find(block, port.kind(), port.name()).offset;
  }

  // Before the first backward.
  void clearSums() const {
    if (plan.sumBytes)
      std::memset(memory + plan.sums, 0, plan.sumBytes);
  }

private:
  layout::RemotePlan plan;
  unsigned char *memory = nullptr;
};

} // namespace mebp
