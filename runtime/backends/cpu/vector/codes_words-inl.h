// SPDX-License-Identifier: Apache-2.0
//
// Codes of quantised weights as floats, for vectors of x86: a lane takes 32 bits of a row, which are eight codes of
// four bits, or four of eight. A mask leaves the n-th code, 2^(bits n) times itself, which is a float of few bits; x
// was divided by as much. That changes no bit of a product (but of an x below 2^-102, which may become zero), and saves
// the shifts and the widening loads that would bring each code to the end of a lane.
#if defined(MEBP_CODES_WORDS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_CODES_WORDS_INL_H
#undef MEBP_CODES_WORDS_INL_H
#else
#define MEBP_CODES_WORDS_INL_H
#endif

#include "runtime/backends/cpu/products/bf16_products.h"
#include "runtime/backends/cpu/vector/simd-inl.h"
#include "runtime/backends/cpu/vector/tile-inl.h"

#include <array>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// `parts` codes of a row lie in each of `width` lanes.
template <bool fourBits> struct CodeOrder {
  static constexpr int bits = fourBits ? 4 : 8, parts = 32 / bits;
  static constexpr int64_t width = lanes;
  // What x is multiplied by that meets the n-th code. The last comes by a shift: a mask would leave its sign.
  static constexpr float scaleOf(int n) { return n + 1 < parts ? 1.0f / static_cast<float>(1 << bits * n) : 1.0f; }
};

// Rows of the weight that meet so many rows of x together: memory gives one after the other soonest, but where vectors
// are short, two that share the loads of x are faster.
constexpr int codeRowsAtOnce(int rows) { return lanes < 16 && rows == 1 ? 2 : 1; }

// A number for each group of a vector's codes, in all lanes that have codes of it.
template <bool fourBits> HWY_INLINE FloatVector spreadGroups(FloatVector groups) {
  constexpr int64_t lanesOfGroup = panelWidth / CodeOrder<fourBits>::parts;
  HWY_ALIGN constexpr auto indices = [] {
    std::array<int32_t, lanes> all{};
    for (int64_t lane = 0; lane < lanes; ++lane)
      all[lane] = static_cast<int32_t>(lane / lanesOfGroup);
    return all;
  }();
  return hn::TableLookupLanes(groups, hn::SetTableIndices(FloatTag(), indices.data()));
}

// sums[w][r] += scales[w] (x_r codes[w]), of the next codes of a row: of a whole vector, or of the `count` that are
// left. Scales of rows are scaleStride apart, rows of x xStride.
template <int Rows, int Width, bool fourBits, bool whole>
HWY_INLINE void addCodes(const uint8_t *(&codes)[Width], const float *x, int64_t xStride, const float *scales,
                         int64_t scaleStride, int64_t count, FloatVector (&sums)[Width][Rows]) {
  using Order = CodeOrder<fourBits>;
  const FloatTag d;
  const LaneTag<int32_t> integers;
  const LaneTag<uint32_t> words;
  LaneVector<uint32_t> word[Width];
  FloatVector products[Width][Rows];
#pragma GCC unroll 4
  for (int w = 0; w < Width; ++w) {
    __builtin_prefetch(codes[w] + CodeFactors::ahead, 0, 3);
    const int64_t present = whole ? lanes : count / Order::parts; // nothing is read beyond the weight
    word[w] = loadSome(reinterpret_cast<const uint32_t *>(codes[w]), present);
    codes[w] += 4 * present;
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      products[w][r] = hn::Zero(d);
  }
#pragma GCC unroll 8
  for (int n = 0; n < Order::parts; ++n) {
    FloatVector values[Rows];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      values[r] = hn::LoadU(d, x + r * xStride + n * lanes);
    const auto mask = hn::Set(words, ((1u << Order::bits) - 1) << (n * Order::bits));
#pragma GCC unroll 4
    for (int w = 0; w < Width; ++w) {
      const auto code = n + 1 < Order::parts ? hn::And(word[w], mask) : hn::ShiftRight<32 - Order::bits>(word[w]);
      const FloatVector value = hn::ConvertTo(d, hn::BitCast(integers, code));
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r)
        products[w][r] = hn::MulAdd(value, values[r], products[w][r]);
    }
  }
#pragma GCC unroll 4
  for (int w = 0; w < Width; ++w) {
    const float *from = scales + w * scaleStride;
    const FloatVector scale =
        spreadGroups<fourBits>(whole ? hn::LoadU(d, from) : loadWithin(from, ceilDivide(count, panelWidth)));
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      sums[w][r] = hn::MulAdd(scale, products[w][r], sums[w][r]);
  }
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
