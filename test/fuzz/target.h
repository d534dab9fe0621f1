// SPDX-License-Identifier: Apache-2.0
//
// What all targets share. A target is LLVMFuzzerTestOneInput over one file's bytes: it may refuse them, but not crash,
// hang, or hold more memory than such a file is worth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace mebp::fuzz {

// A folder of this process in $TMPDIR, removed at its end.
const std::string &scratchFolder();
void writeFile(const std::string &path, const void *data, size_t size);

// While one lives, the bytes that this process allocates and has not freed are counted. At its end the process aborts
// where there were ever more than ten times those of the file, and a constant for what any file takes.
class AllocationLimit {
public:
  explicit AllocationLimit(size_t fileBytes);
  AllocationLimit(const AllocationLimit &) = delete;
  ~AllocationLimit();

private:
  int64_t limit;
};

} // namespace mebp::fuzz
