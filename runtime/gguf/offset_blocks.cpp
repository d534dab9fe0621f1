// SPDX-License-Identifier: Apache-2.0
//
// Q4_K and Q5_K. Each group is fitted alone, by least squares for the codes that several ranges give. Then the fits
// become steps of 6 bits of two numbers of the block, and three things are improved in turn as long as less is lost:
// each group's steps, by one up or down; the block's two numbers, by least squares for all codes; and the codes.
#include "runtime/gguf/blocks.h"
#include "runtime/gguf/groups.h"

#include <cstring>

namespace mebp::gguf {

namespace {

constexpr unsigned groupCount = 8, groupNumbers = 32;
constexpr float mostSteps = 63;

struct Fit {
  float scale, low;
};

// The least squares for these codes; no low is negative, for the steps have no sign.
Fit leastSquares(const float *x, float sumOfX, const float *codes) {
  const Sums sums = sum<groupNumbers>(x, codes, 0);
  const float determinant = groupNumbers * sums.square - sums.code * sums.code;
  if (!(determinant > 0))
    return {0, std::max(0.0f, -sumOfX / groupNumbers)};
  const float scale = (groupNumbers * sums.product - sums.code * sumOfX) / determinant;
  const float low = (scale * sums.code - sumOfX) / groupNumbers;
  return low > 0 ? Fit{scale, low} : Fit{sums.product / sums.square, 0};
}

Fit fitGroup(const float *x, float top) {
  float least = 0, most = x[0], sumOfX = 0;
  for (unsigned i = 0; i < groupNumbers; ++i) {
    least = std::min(least, x[i]);
    most = std::max(most, x[i]);
    sumOfX += x[i];
  }
  if (!(most > least))
    return {0, -least};
  float codes[groupNumbers];
  Fit best = {(most - least) / top, -least};
  float lost = assign<groupNumbers>(x, best.scale, best.low, top, codes);
  const auto consider = [&](Fit fit) {
    const float loses = lostBy<groupNumbers>(x, fit.scale, fit.low, codes);
    if (fit.scale > 0 && loses < lost)
      best = fit, lost = loses;
  };
  consider(leastSquares(x, sumOfX, codes));
  // Ranges of up to 1.2 codes more or less, for what lies at the ends need not be met.
  for (int step = -12; step <= 12; step += 3) {
    const float scale = (most - least) / (top + 0.1f * static_cast<float>(step));
    assign<groupNumbers>(x, scale, -least, top, codes);
    consider(leastSquares(x, sumOfX, codes));
  }
  for (int round = 0; round < 3; ++round) {
    const float before = lost;
    assign<groupNumbers>(x, best.scale, best.low, top, codes);
    consider(leastSquares(x, sumOfX, codes));
    if (!(lost < before))
      break;
  }
  return best;
}

// A block on its way: what it would hold, with the codes' loss of each group.
struct Draft {
  float scale, low;                           // of the block, as f16 has them
  float scales[groupCount], lows[groupCount]; // steps of each group
  float codes[blockNumbers];
  float lost[groupCount];

  float loses() const {
    float sum = 0;
    for (float each : lost)
      sum += each;
    return sum;
  }
};

void assignAll(const float *x, float top, Draft &draft) {
  for (unsigned group = 0; group < groupCount; ++group)
    draft.lost[group] = assign<groupNumbers>(x + group * groupNumbers, draft.scale * draft.scales[group],
                                             draft.low * draft.lows[group], top, draft.codes + group * groupNumbers);
}

// Steps beside the present ones; of a scale that f16 hardly resolves, all. Whether any group loses less.
bool improveSteps(const float *x, float top, Draft &draft) {
  bool isBetter = false;
  const float reach = draft.scale < 0x1p-18f ? mostSteps : 1;
  for (unsigned group = 0; group < groupCount; ++group) {
    const float *here = x + group * groupNumbers;
    const float scales = draft.scales[group], lows = draft.lows[group];
    float codes[groupNumbers];
    for (float scale = std::max(0.0f, scales - reach); scale <= std::min(mostSteps, scales + reach); ++scale)
      for (float low = std::max(0.0f, lows - 1); low <= std::min(mostSteps, lows + 1); ++low) {
        const float loses = assign<groupNumbers>(here, draft.scale * scale, draft.low * low, top, codes);
        if (!(loses < draft.lost[group]))
          continue;
        isBetter = true;
        draft.lost[group] = loses;
        draft.scales[group] = scale, draft.lows[group] = low;
        std::memcpy(draft.codes + group * groupNumbers, codes, sizeof codes);
      }
  }
  return isBetter;
}

// The block's numbers for its steps and codes. Whether less is lost.
bool improveNumbers(const float *x, float top, Draft &draft) {
  double ss = 0, sl = 0, ll = 0, sx = 0, lx = 0; // sums over s = steps * code and l = steps
  for (unsigned group = 0; group < groupCount; ++group) {
    const float *here = x + group * groupNumbers;
    const Sums sums = sum<groupNumbers>(here, draft.codes + group * groupNumbers, 0);
    double sumOfX = 0;
    for (unsigned i = 0; i < groupNumbers; ++i)
      sumOfX += here[i];
    const double s = draft.scales[group], l = draft.lows[group];
    ss += s * s * sums.square;
    sl += s * l * sums.code;
    ll += l * l * groupNumbers;
    sx += s * sums.product;
    lx += l * sumOfX;
  }
  Draft other = draft;
  const double determinant = ss * ll - sl * sl;
  if (determinant > 1e-9 * ss * ll) {
    other.scale = rounded(static_cast<float>((sx * ll - lx * sl) / determinant));
    other.low = rounded(static_cast<float>((sx * sl - lx * ss) / determinant));
  } else if (ss > 0) {
    other.scale = rounded(static_cast<float>((sx + draft.low * sl) / ss));
  } else if (ll > 0) {
    other.low = rounded(static_cast<float>(-lx / ll));
  }
  if (!(other.scale >= 0) || !(other.low >= 0) || (other.scale == draft.scale && other.low == draft.low))
    return false;
  assignAll(x, top, other);
  if (!(other.loses() < draft.loses()))
    return false;
  draft = other;
  return true;
}

// With the block's numbers such that the largest of the fits has about so many steps.
Draft begin(const float *x, float top, const Fit (&fits)[groupCount], float steps) {
  Draft draft = {};
  float scale = 0, low = 0;
  for (const Fit &fit : fits) {
    scale = std::max(scale, fit.scale);
    low = std::max(low, fit.low);
  }
  draft.scale = stepOf(scale, steps);
  draft.low = stepOf(low, steps);
  if (std::isinf(draft.scale) || std::isinf(draft.low))
    return draft;
  for (unsigned group = 0; group < groupCount; ++group) {
    draft.scales[group] = stepsOf(fits[group].scale, draft.scale, 0, mostSteps);
    draft.lows[group] = stepsOf(fits[group].low, draft.low, 0, mostSteps);
  }
  assignAll(x, top, draft);
  return draft;
}

Draft search(const float *x, float top) {
  Fit fits[groupCount];
  for (unsigned group = 0; group < groupCount; ++group)
    fits[group] = fitGroup(x + group * groupNumbers, top);
  Draft draft = begin(x, top, fits, mostSteps);
  if (std::isinf(draft.scale) || std::isinf(draft.low))
    return draft;
  // f16 and whole steps round otherwise.
  for (float steps = mostSteps - 1; steps > mostSteps - triedSteps; --steps) {
    const Draft other = begin(x, top, fits, steps);
    if (other.loses() < draft.loses())
      draft = other;
  }
  for (int round = 0; round < 3; ++round) {
    const bool hasSteps = improveSteps(x, top, draft);
    if (!improveNumbers(x, top, draft) && !hasSteps)
      break;
  }
  return draft;
}

void packGroups(const Draft &draft, uint8_t *groups) {
  for (unsigned i = 0; i < 4; ++i) {
    const auto scale = static_cast<uint8_t>(draft.scales[i]), low = static_cast<uint8_t>(draft.lows[i]);
    const auto scale4 = static_cast<uint8_t>(draft.scales[i + 4]), low4 = static_cast<uint8_t>(draft.lows[i + 4]);
    groups[i] = static_cast<uint8_t>(scale | (scale4 >> 4) << 6);
    groups[i + 4] = static_cast<uint8_t>(low | (low4 >> 4) << 6);
    groups[i + 8] = static_cast<uint8_t>((scale4 & 15) | (low4 & 15) << 4);
  }
}

unsigned codeAt(const Draft &draft, unsigned index) { return static_cast<unsigned>(draft.codes[index]); }

template <typename Block> void packCommon(const Draft &draft, Block &block) {
  block.scale = format::floatToHalf(draft.scale);
  block.low = format::floatToHalf(draft.low);
  packGroups(draft, block.groups);
  for (unsigned i = 0; i < blockNumbers / 2; ++i) {
    const unsigned first = i / 32 * 64 + i % 32;
    block.codes[i] = static_cast<uint8_t>((codeAt(draft, first) & 15) | (codeAt(draft, first + 32) & 15) << 4);
  }
}

} // namespace

void quantizeBlock(const float *values, BlockQ4K &block) { packCommon(search(values, 15), block); }

void quantizeBlock(const float *values, BlockQ5K &block) {
  const Draft draft = search(values, 31);
  packCommon(draft, block);
  for (unsigned i = 0; i < groupNumbers; ++i) {
    unsigned bits = 0;
    for (unsigned group = 0; group < groupCount; ++group)
      bits |= (codeAt(draft, group * groupNumbers + i) >> 4) << group;
    block.fifth[i] = static_cast<uint8_t>(bits);
  }
}

} // namespace mebp::gguf
