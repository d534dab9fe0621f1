// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/direction.h"

#include <cmath>

#include "format/random.h"

namespace mebp {

namespace {

struct Pair {
  float first, second;
};

// Box and Muller. In f32: four times as fast, and a direction needs no more.
Pair normalPair(uint64_t bits) {
  constexpr float turn = 6.2831853f, unit = 0x1.0p-24f;
  float radius = std::sqrt(-2 * std::log((static_cast<float>(bits >> 40) + 1) * unit));
  float angle = turn * (static_cast<float>(bits & 0xFFFFFF) * unit);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

} // namespace

void addDirection(float *values, uint64_t count, uint64_t seed, uint64_t stream, float factor) {
  for (uint64_t element = 0; element < count; element += 2) {
    Pair z = normalPair(format::randomBits(seed, stream, element));
    values[element] += factor * z.first;
    if (element + 1 < count)
      values[element + 1] += factor * z.second;
  }
}

} // namespace mebp
