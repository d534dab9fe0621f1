// SPDX-License-Identifier: Apache-2.0
//
// Numbers that depend on (seed, stream, index) alone: any element can be drawn by itself, in any order, on any machine.
#pragma once

#include <cmath>
#include <cstdint>

namespace mebp::format {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014), over a counter.
inline uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t index) {
  uint64_t state = seed * 0x9E3779B97F4A7C15ull ^ (stream + 1) * 0xD1B54A32D192ED03ull;
  state += (index + 1) * 0x9E3779B97F4A7C15ull;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBull;
  return state ^ (state >> 31);
}

// In [-bound, bound).
inline float randomUniform(uint64_t seed, uint64_t stream, uint64_t index, float bound) {
  double unit = static_cast<double>(randomBits(seed, stream, index) >> 11) * 0x1.0p-53;
  return static_cast<float>((2.0 * unit - 1.0) * bound);
}

// Standard normal, by Box and Muller.
inline float randomNormal(uint64_t seed, uint64_t stream, uint64_t index) {
  uint64_t bits = randomBits(seed, stream, index);
  double radius = std::sqrt(-2.0 * std::log((static_cast<double>(bits >> 32) + 1.0) * 0x1.0p-32));
  double angle = 6.283185307179586 * (static_cast<double>(bits & 0xFFFFFFFFu) * 0x1.0p-32);
  return static_cast<float>(radius * std::cos(angle));
}

// Of a weight that is drawn instead of read: standard normal times this.
constexpr float drawnDeviation = 0.02f;

} // namespace mebp::format
