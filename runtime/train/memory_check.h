// SPDX-License-Identifier: Apache-2.0
//
// Shows that a session lives within its layout. Where MEBP_CHECK_MEMORY is set (docs/debugging.md), nothing that begins
// to live finds what lay there before, and nothing that has ended can be read: both are NaN. Results are the same bits.
// With AddressSanitizer a program's scratch cannot even be touched while none runs.
#pragma once

#include <cstdint>

#include "format/program.pb.h"
#include "runtime/core/status.h"
#include "runtime/exec/buffers.h"

namespace mebp {

class MemoryCheck {
public:
  // By the environment; refuses a value that nobody knows. A device that places values itself has memory of the host
  // while it runs, so there nothing is filled.
  static Result<MemoryCheck> make(bool followsPlacements);

  // Also: what shares a place at different times has places apart, so that a session whose bits differ from those of
  // one that shares has read what was another's.
  bool isApart() const { return apart; }

  bool isOn() const { return fills || apart; }

  void clear(void *memory, uint64_t bytes) const;
  // What is the caller's again, whatever it was meanwhile.
  void giveBack(void *memory, uint64_t bytes) const;
  // Before and after a program: its scratch, and what it is about to write anew, which is what comes out of it and is
  // no place of anything that goes in.
  void beginProgram(const format::Program &program, const Run &run, const Buffers &buffers) const;
  void endProgram(const format::Program &program, const Run &run, const Buffers &buffers) const;

private:
  bool fills = false, apart = false;
};

} // namespace mebp
