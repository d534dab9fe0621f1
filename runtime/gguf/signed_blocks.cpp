// SPDX-License-Identifier: Apache-2.0
//
// Q6_K, as Q4_K in offset_blocks.cpp: a group's low is 32 of its scales, which may be negative.
#include "runtime/gguf/blocks.h"
#include "runtime/gguf/groups.h"

#include <cstring>

namespace mebp::gguf {

namespace {

constexpr unsigned groupCount = 16, groupNumbers = 16;
constexpr float top = 63, zero = 32, leastSteps = -128, mostSteps = 127;

float lostOf(const float *x, float scale, float *codes) {
  return assign<groupNumbers>(x, scale, zero * scale, top, codes);
}

float fitGroup(const float *x) {
  float extreme = 0; // code 0, which is further from 32 than 63 is
  for (unsigned i = 0; i < groupNumbers; ++i)
    if (std::abs(x[i]) > std::abs(extreme))
      extreme = x[i];
  if (extreme == 0)
    return 0;
  float codes[groupNumbers], best = -extreme / zero;
  float lost = lostOf(x, best, codes);
  const auto consider = [&] {
    const Sums sums = sum<groupNumbers>(x, codes, zero);
    const float scale = sums.square > 0 ? sums.product / sums.square : 0;
    const float loses = lostBy<groupNumbers>(x, scale, zero * scale, codes);
    if (loses < lost)
      best = scale, lost = loses;
  };
  consider();
  // Ranges of up to 1.2 codes more or less, to either side.
  for (int step = -12; step <= 12; step += 3) {
    const float range = zero + 0.1f * static_cast<float>(step);
    lostOf(x, -extreme / range, codes);
    consider();
    lostOf(x, extreme / (range - 1), codes);
    consider();
  }
  return best;
}

struct Draft {
  float scale;              // of the block, as f16 has it
  float scales[groupCount]; // steps of each group
  float codes[blockNumbers];
  float lost[groupCount];

  float loses() const {
    float sum = 0;
    for (float each : lost)
      sum += each;
    return sum;
  }
};

void assignAll(const float *x, Draft &draft) {
  for (unsigned group = 0; group < groupCount; ++group)
    draft.lost[group] =
        lostOf(x + group * groupNumbers, draft.scale * draft.scales[group], draft.codes + group * groupNumbers);
}

bool improveSteps(const float *x, Draft &draft) {
  bool isBetter = false;
  for (unsigned group = 0; group < groupCount; ++group) {
    const float present = draft.scales[group];
    float codes[groupNumbers];
    for (float scale : {present - 1, present + 1}) {
      if (scale < leastSteps || scale > mostSteps)
        continue;
      const float loses = lostOf(x + group * groupNumbers, draft.scale * scale, codes);
      if (!(loses < draft.lost[group]))
        continue;
      isBetter = true;
      draft.lost[group] = loses;
      draft.scales[group] = scale;
      std::memcpy(draft.codes + group * groupNumbers, codes, sizeof codes);
    }
  }
  return isBetter;
}

bool improveNumber(const float *x, Draft &draft) {
  double square = 0, product = 0;
  for (unsigned group = 0; group < groupCount; ++group) {
    const Sums sums = sum<groupNumbers>(x + group * groupNumbers, draft.codes + group * groupNumbers, zero);
    const double s = draft.scales[group];
    square += s * s * sums.square;
    product += s * sums.product;
  }
  Draft other = draft;
  other.scale = square > 0 ? rounded(static_cast<float>(product / square)) : draft.scale;
  if (other.scale == draft.scale)
    return false;
  assignAll(x, other);
  if (!(other.loses() < draft.loses()))
    return false;
  draft = other;
  return true;
}

Draft begin(const float *x, const float (&fits)[groupCount], float steps) {
  Draft draft = {};
  float extreme = 0;
  for (float fit : fits)
    if (std::abs(fit) > std::abs(extreme))
      extreme = fit;
  draft.scale = stepOf(extreme, steps);
  if (std::isinf(draft.scale))
    return draft;
  for (unsigned group = 0; group < groupCount; ++group)
    draft.scales[group] = stepsOf(fits[group], draft.scale, leastSteps, mostSteps);
  assignAll(x, draft);
  return draft;
}

Draft search(const float *x) {
  float fits[groupCount];
  for (unsigned group = 0; group < groupCount; ++group)
    fits[group] = fitGroup(x + group * groupNumbers);
  Draft draft = begin(x, fits, leastSteps);
  if (std::isinf(draft.scale))
    return draft;
  for (float steps = leastSteps + 1; steps < leastSteps + triedSteps; ++steps) {
    const Draft other = begin(x, fits, steps);
    if (other.loses() < draft.loses())
      draft = other;
  }
  for (int round = 0; round < 3; ++round) {
    const bool hasSteps = improveSteps(x, draft);
    if (!improveNumber(x, draft) && !hasSteps)
      break;
  }
  return draft;
}

} // namespace

void quantizeBlock(const float *values, BlockQ6K &block) {
  const Draft draft = search(values);
  block.scale = format::floatToHalf(draft.scale);
  for (unsigned group = 0; group < groupCount; ++group)
    block.groups[group] = static_cast<int8_t>(draft.scales[group]);
  const auto code = [&](unsigned index) { return static_cast<unsigned>(draft.codes[index]); };
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned first = 128 * half;
    for (unsigned i = 0; i < 64; ++i)
      block.codes[64 * half + i] = static_cast<uint8_t>((code(first + i) & 15) | (code(first + 64 + i) & 15) << 4);
    for (unsigned i = 0; i < 32; ++i) {
      unsigned bits = 0;
      for (unsigned part = 0; part < 4; ++part)
        bits |= code(first + 32 * part + i) >> 4 << (2 * part);
      block.upper[32 * half + i] = static_cast<uint8_t>(bits);
    }
  }
}

} // namespace mebp::gguf
