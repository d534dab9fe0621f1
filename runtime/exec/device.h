// SPDX-License-Identifier: Apache-2.0
//
// What is known of a device before anything runs on it.
#pragma once

#include <cstdint>
#include <string>

namespace mebp {

struct Device {
  std::string description;  // for people: "Apple M3 Max", with what drives it
  std::string absence;      // why it is not there and how to get it; empty: it is there
  std::string build;        // which one of what drives it: another may compute otherwise
  uint64_t memoryBytes = 0; // all that it has; 0: it does not tell
};

} // namespace mebp
