// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/vocabulary.h"

#include <algorithm>
#include <functional>

namespace mebp::text {

void Vocabulary::add(std::string_view token, uint64_t id) {
  const auto begin = static_cast<uint32_t>(texts.size());
  texts.append(token);
  added.push_back({{begin, static_cast<uint32_t>(texts.size())}, id});
}

Status Vocabulary::complete() {
  const uint64_t limit = 4 * uint64_t{added.size()} + 4096;
  uint64_t largest = 0;
  for (const auto &entry : added) {
    if (entry.second >= limit)
      return failure(MEBP_CORRUPT, "vocab: id %llu is far beyond the %zu tokens; save the tokenizer again",
                     static_cast<unsigned long long>(entry.second), added.size());
    largest = std::max(largest, entry.second + 1);
  }
  texts.shrink_to_fit();
  places.assign(largest, {});
  size_t room = 16;
  while (room < 2 * added.size())
    room *= 2;
  table.assign(room, none);
  for (const auto &[place, id] : added) {
    places[id] = place;
    const std::string_view token = this->token(static_cast<uint32_t>(id));
    size_t at = std::hash<std::string_view>()(token) & (room - 1);
    while (table[at] != none && this->token(table[at]) != token)
      at = (at + 1) & (room - 1);
    number += table[at] == none;
    table[at] = static_cast<uint32_t>(id);
  }
  added = {};
  return Status();
}

uint32_t Vocabulary::find(std::string_view token) const {
  if (table.empty())
    return none;
  const size_t mask = table.size() - 1;
  size_t at = std::hash<std::string_view>()(token) & mask;
  while (table[at] != none && this->token(table[at]) != token)
    at = (at + 1) & mask;
  return table[at];
}

std::string_view Vocabulary::token(uint32_t id) const {
  if (id >= places.size())
    return {};
  return std::string_view(texts).substr(places[id].begin, places[id].end - places[id].begin);
}

} // namespace mebp::text
