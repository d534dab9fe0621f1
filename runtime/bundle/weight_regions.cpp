// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/weight_regions.h"

#include <algorithm>

#include "format/container.h"
#include "format/storage.h"

namespace mebp {

static uint64_t endOf(const format::Weight &weight) {
  const format::StoredSize size = format::storedSize(weight);
  const uint64_t end = weight.data_offset() + size.dataBytes;
  return size.groupBytes
             ? std::max({end, weight.scales_offset() + size.groupBytes, weight.minima_offset() + size.groupBytes})
             : end;
}

WeightRegions::WeightRegions(const format::Bundle &bundle) {
  constexpr uint32_t nobody = UINT32_MAX;
  constexpr uint64_t unit = format::regionAlignment;
  const auto blocks = static_cast<uint32_t>(bundle.blocks_size());
  regions.resize(blocks);
  read.resize(blocks);
  owners.assign(static_cast<size_t>(bundle.weights_size()), nobody);
  for (uint32_t block = 0; block < blocks; ++block) {
    uint64_t begin = UINT64_MAX, end = 0;
    for (const format::Parameter &parameter : bundle.blocks(static_cast<int>(block)).parameters()) {
      if (!parameter.has_weight())
        continue;
      uint32_t &owner = owners[parameter.weight()];
      if (owner == nobody) {
        owner = block;
        const format::Weight &weight = bundle.weights(static_cast<int>(parameter.weight()));
        begin = std::min(begin, weight.data_offset());
        end = std::max(end, endOf(weight));
      }
      read[block].push_back(owner);
    }
    std::sort(read[block].begin(), read[block].end());
    read[block].erase(std::unique(read[block].begin(), read[block].end()), read[block].end());
    if (end == 0)
      continue;
    begin = begin / unit * unit;
    regions[block] = {begin, std::min((end + unit - 1) / unit * unit, bundle.weights_bytes()) - begin};
  }
}

} // namespace mebp
