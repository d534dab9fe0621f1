// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "mebp/data.h"
#include "runtime/core/edge.h"
#include "runtime/text/data/sample.h"

namespace mebp::text {

// A caller's turns as the library's own.
inline Result<std::vector<Turn>> readTurns(const mebp_data_turn *given, uint32_t count) {
  std::vector<Turn> turns;
  for (uint32_t i = 0; i < count; ++i) {
    if (Status status = checkArguments({{"turns[].role", given[i].role}, {"turns[].text", given[i].text}});
        !status.ok())
      return status;
    turns.push_back({given[i].role, std::string(given[i].text, given[i].bytes), given[i].learned});
  }
  return turns;
}

} // namespace mebp::text
