// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace mebp {

struct PlannedBuffer {
  std::string name;
  uint64_t bytes;
  std::string source; // what it comes from, for people
};

} // namespace mebp
