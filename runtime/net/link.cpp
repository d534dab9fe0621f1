// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/link.h"

#include <algorithm>

#include "format/random.h"

namespace mebp::net {

static Clock::duration ofSeconds(double seconds) {
  return std::chrono::round<Clock::duration>(std::chrono::duration<double>(seconds));
}

Fate Shape::fateOf(uint64_t opening, Direction direction, uint64_t frame) const {
  const auto isDrawn = [&](uint32_t oneIn, uint64_t kind) {
    return oneIn && format::randomBits(seed, 4 * opening + 2 * kind + direction, frame) % oneIn == 0;
  };
  if (isDrawn(framesPerCut, 0))
    return Fate::IsCut;
  return isDrawn(framesPerStall, 1) ? Fate::Stalls : Fate::Passes;
}

Link::Link(double mbit, double delayMs)
    : secondsPerByte(mbit > 0 ? 8e-6 / mbit : 0), delay(ofSeconds(delayMs * 1e-3)) {}

Clock::time_point Link::pass(Clock::time_point now, size_t bytes) {
  const Clock::time_point leaves = std::max(now, left[1]) + ofSeconds(secondsPerByte * static_cast<double>(bytes));
  left = {left[1], leaves};
  return leaves + delay;
}

void Link::stall(Clock::time_point now, uint32_t ms) {
  left[1] = std::max(now, left[1]) + std::chrono::milliseconds(ms);
}

} // namespace mebp::net
