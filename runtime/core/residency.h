// SPDX-License-Identifier: Apache-2.0
//
// Keeps the pages of a mapped file that are in memory within a limit: the least recently used go first, out of the
// process and out of the system's cache. Forwards and backwards alternate in a step, so what was used last is what is
// needed soonest.
#pragma once

#include <cstdint>

#include "format/residency.h"
#include "runtime/core/files.h"

namespace mebp {

class Residency {
public:
  // From here on at most `limit` bytes of `file` stay. Both live as long as this, and so do the
  // format::residencyBytes of `memory`.
  void begin(const MappedFile &file, uint64_t limit, void *memory);

  // To be called before these bytes are read; what does not lie in the file is ignored. Together, the bytes of several
  // calls must fit the limit if they are to be there at once.
  void use(const void *data, uint64_t bytes);

private:
  // A ring in the order of use, through one element more than there are windows.
  struct Window {
    uint32_t older, newer;
  };
  static_assert(format::residencyBytes(0) == 2 * sizeof(Window), "format/residency.h counts the ring");
  static constexpr uint32_t absent = UINT32_MAX;

  bool append(uint32_t window); // as the newest; gives whether it was absent
  void remove(uint32_t window);
  void dropOldest();
  void advise(uint32_t first, uint32_t end, void (MappedFile::*how)(uint64_t, uint64_t) const) const;

  const MappedFile *file = nullptr;
  Window *windows = nullptr;
  uint64_t most = 0, present = 0;
  uint64_t base = 0; // the address, in windows, of the first one
  uint32_t ring = 0; // the extra element: its `newer` is the oldest window
};

} // namespace mebp
