// SPDX-License-Identifier: Apache-2.0
//
// Reading a mapped file beyond an end that somebody has cut, or from a disk that fails, raises SIGBUS, which ends the
// process. While a range is watched, a page of it that cannot be read becomes zeros instead, in whichever thread it is
// read, and the range says so: whoever has computed with it has to throw that away.
//
// The handler is the process's, the one state here that is: a lease on the file would hold off only processes of this
// machine, and only on files of our own, and reading the weights instead of mapping them would take their memory. It
// is installed with the first range and gone with the last, and passes on what is not ours.
#pragma once

#include <cstdint>

namespace mebp {

class WatchedRange {
public:
  WatchedRange() = default;
  WatchedRange(WatchedRange &&other) noexcept;
  WatchedRange &operator=(WatchedRange &&other) noexcept;
  ~WatchedRange();

  void begin(const void *start, uint64_t bytes);
  // Whether a page of it has been lost.
  bool isCut() const;

private:
  struct Slot;
  struct Handler;

  Slot *slot = nullptr;
};

} // namespace mebp
