// SPDX-License-Identifier: Apache-2.0
//
// Where in weights.bin the weights of a block lie (docs/format.md): its region has what no earlier block binds.
#pragma once

#include <cstdint>
#include <vector>

#include "format/program.pb.h"

namespace mebp {

struct WeightRegion {
  uint64_t offset = 0, bytes = 0;
};

class WeightRegions {
public:
  WeightRegions() = default;
  explicit WeightRegions(const format::Bundle &bundle);

  const WeightRegion &of(uint32_t block) const { return regions[block]; }
  // The block in whose region a weight is.
  uint32_t blockOf(uint32_t weight) const { return owners[weight]; }
  // The blocks whose regions a block's programs read of.
  const std::vector<uint32_t> &readBy(uint32_t block) const { return read[block]; }

private:
  std::vector<WeightRegion> regions;
  std::vector<uint32_t> owners;            // of each weight
  std::vector<std::vector<uint32_t>> read; // for each block
};

} // namespace mebp
