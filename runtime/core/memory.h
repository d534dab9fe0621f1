// SPDX-License-Identifier: Apache-2.0
//
// The memory that a session works in, and the most that the process has really taken.
#pragma once

#include <cstdint>

#include "runtime/core/status.h"

namespace mebp {

// The caller's memory, or else anonymous pages straight from the system: zero, and free of cost until they are touched.
class Arena {
public:
  Arena() = default;
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  // `guarded`: a byte beyond it is the process's end.
  static Result<Arena> allocate(uint64_t size, const mebp_allocator &allocator = {}, bool guarded = false);
  unsigned char *data() const { return bytes; }

private:
  unsigned char *bytes = nullptr;
  uint64_t length = 0;
  mebp_allocator owner = {}; // without functions: the system
  bool isGuarded = false;
};

// The highest figure so far of platform::writtenMemoryBytes.
class PeakMemory {
public:
  void sample();
  uint64_t bytes() const { return highest; }

private:
  uint64_t highest = 0;
};

} // namespace mebp
