// SPDX-License-Identifier: Apache-2.0
//
// A reader that holds more than its file is worth, which AllocationLimit has to find: if it did not, no target would.
#include <string>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *, size_t size) {
  mebp::fuzz::AllocationLimit limit(size);
  std::string content(11 * size + (64 << 10), '\0');
  return content.back();
}
