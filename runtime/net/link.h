// SPDX-License-Identifier: Apache-2.0
//
// One direction of a slow network, as times alone: it waits for nothing, so a test or a simulation may give it any
// clock's times. A frame takes its bytes' time to leave, one after the other, and so much longer to arrive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/net/stream.h"

namespace mebp::net {

// What happens to a frame.
enum class Fate { Passes, Stalls, IsCut };

// How a network is to be. Bytes are those of heads and bodies; what TLS and HTTP/2 add is not counted.
struct Shape {
  double upMbit = 0, downMbit = 0; // in 10^6 bits a second; 0: as fast as it goes
  double delayMs = 0;              // one way, of each direction
  // One frame in so many, drawn by the seed, ends the stream or holds up its direction; 0: none does.
  uint32_t framesPerCut = 0, framesPerStall = 0;
  uint32_t stallMs = 0;
  uint64_t seed = 0;

  enum Direction : uint64_t { Up, Down };
  // Of the frame with this number in the stream that was opened so many times before: the same each time, however
  // threads run.
  Fate fateOf(uint64_t opening, Direction direction, uint64_t frame) const;
};

class Link {
public:
  Link(double mbit, double delayMs);

  // When the next frame can be put down: the sender waits while two have not left yet.
  Clock::time_point roomAt() const { return left[0]; }
  // A frame that is put down at this time; says when it arrives.
  Clock::time_point pass(Clock::time_point now, size_t bytes);
  void stall(Clock::time_point now, uint32_t ms);

private:
  const double secondsPerByte;
  const Clock::duration delay;
  std::array<Clock::time_point, 2> left = {}; // of the last two frames, when the last byte of each has left
};

} // namespace mebp::net
