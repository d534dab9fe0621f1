// SPDX-License-Identifier: Apache-2.0
//
// Tokens by id, and ids by token: the texts one after another, and a table of ids by hash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/status.h"

namespace mebp::text {

class Vocabulary {
public:
  static constexpr uint32_t none = UINT32_MAX;

  void add(std::string_view token, uint64_t id);
  // Once, when all are there. Refuses ids far beyond their number. Of two entries of one token the later counts.
  Status complete();

  uint32_t find(std::string_view token) const; // or none
  std::string_view token(uint32_t id) const;   // empty where there is none
  bool has(uint32_t id) const { return id < places.size() && places[id].end; }
  uint32_t size() const { return static_cast<uint32_t>(places.size()); } // one more than the largest id
  uint32_t count() const { return number; }

private:
  struct Place {
    uint32_t begin = 0, end = 0; // in texts, which begins with a byte of no token
  };
  std::string texts = std::string(1, '\0');
  std::vector<std::pair<Place, uint64_t>> added;
  std::vector<Place> places;
  std::vector<uint32_t> table;
  uint32_t number = 0;
};

} // namespace mebp::text
