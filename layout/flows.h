// SPDX-License-Identifier: Apache-2.0
//
// What passes from a block to the next one, and back as cotangents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/program.pb.h"
#include "format/storage.h"

namespace mebp::layout {

struct Flow {
  std::string name;
  format::Storage storage = format::Storage::F32;
  uint64_t columns = 0, rowBytes = 0;
  uint64_t offset = 0; // in the place of all that passes there, with room for every row of the largest step
};

// Between two blocks.
struct Border {
  std::vector<Flow> flows;
  uint64_t bytes = 0;

  const Flow &find(std::string_view name) const;
  // From the beginning of the first flow to the end of so many rows of the last.
  uint64_t spanOf(uint64_t rows) const { return flows.back().offset + rows * flows.back().rowBytes; }
};

// Behind a block that is not the head, as its program of generation gives it, or its forward; or as it is taken.
Border borderBehind(const format::Bundle &bundle, int giver, bool generates);

} // namespace mebp::layout
