// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/places.h"

#include <functional>
#include <map>
#include <queue>

#include "runtime/text/data/permutation.h"

namespace mebp::text {

SharedRows placeSamples(const std::vector<uint32_t> &lengths, uint32_t length, uint64_t seed) {
  using Rows = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>; // the first one comes first
  std::map<uint32_t, Rows> byRoom;                                                   // tokens that are left in a row
  std::vector<std::vector<uint64_t>> rows;
  for (uint64_t sample : permutation({seed}, lengths.size())) {
    const uint32_t size = lengths[sample];
    uint64_t row = rows.size();
    uint32_t left = length;
    if (auto fitting = byRoom.lower_bound(size); fitting != byRoom.end()) {
      left = fitting->first;
      row = fitting->second.top();
      fitting->second.pop();
      if (fitting->second.empty())
        byRoom.erase(fitting);
    } else {
      rows.emplace_back();
    }
    rows[row].push_back(sample);
    byRoom[left - size].push(row);
  }
  SharedRows found;
  found.bounds.push_back(0);
  for (const std::vector<uint64_t> &members : rows) {
    found.members.insert(found.members.end(), members.begin(), members.end());
    found.bounds.push_back(found.members.size());
  }
  return found;
}

} // namespace mebp::text
