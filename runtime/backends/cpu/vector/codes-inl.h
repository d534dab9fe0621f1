// SPDX-License-Identifier: Apache-2.0
//
// Few rows of x times codes of a quantised weight, which are read once, from where they lie. How they become floats,
// and in which order, is in codes_words-inl.h, and for NEON in codes_neon-inl.h.
#if defined(MEBP_CODES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_CODES_INL_H
#undef MEBP_CODES_INL_H
#else
#define MEBP_CODES_INL_H
#endif

#include "runtime/backends/cpu/vector/panels-inl.h"

#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
#include "runtime/backends/cpu/vector/codes_neon-inl.h"
#else
#include "runtime/backends/cpu/vector/codes_words-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t thinRows = CodeFactors::maximumRows;

// What a task has in its workspace, and behind it what all tasks read in the first thread's.
struct ThinWorkspace {
  // Floats behind what a thread writes: no other reads beside it, and a whole vector may be read from the last one on.
  static constexpr int64_t thinWidth = 4, apart = 32;
  static_assert(apart >= lanes && apart >= 8);

  int64_t depth;             // of a row of x that is laid out
  int64_t groups;            // of a row of the weight
  float *lowPanel, *lowRoom; // of a product of low rank
  float *scales, *minima;    // [thinWidth, groups], of rows of the weight
  float *x;                  // [rows, depth], in the order in which codes are multiplied; halves of them in bf16
  float *sums;               // [rows, groups], of x in each group; a whole vector may be read from the last one on

  ThinWorkspace(unsigned char *workspace, int64_t rows, const Tensor &w)
      : depth(depthOf(w)), groups(groupsOf(w)), lowPanel(reinterpret_cast<float *>(workspace)),
        lowRoom(lowPanel + LowRank::panelFloats), scales(lowRoom + thinRows * maximumLowRank),
        minima(scales + scalesOf(w)), x(minima + scalesOf(w)), sums(x + rows * depth) {}

  uint16_t *halves() const { return reinterpret_cast<uint16_t *>(x); }

  // Beside what a caller has reserved at its end, in bytes. Not a weight with other groups than those that files have.
  static bool fits(int64_t rows, const Tensor &w, int64_t reserved = 0) {
    const int64_t floats =
        LowRank::panelFloats + thinRows * maximumLowRank + 2 * scalesOf(w) + rows * (depthOf(w) + groupsOf(w)) + lanes;
    return floats * int64_t{sizeof(float)} + reserved <= int64_t{workspaceBytes} &&
           (!quantized(w) || w.group == panelWidth);
  }

private:
  static int64_t depthOf(const Tensor &w) {
    return ceilDivide(w.stride, CodeFactors::depthUnit) * CodeFactors::depthUnit;
  }
  static int64_t groupsOf(const Tensor &w) { return quantized(w) ? w.stride / w.group : 0; }
  static int64_t scalesOf(const Tensor &w) { return (ceilDivide(thinWidth * groupsOf(w), apart) + 1) * apart; }
};

// Of `width` lanes with `parts` numbers each, one behind the other: store(n, lane, a vector of n-th numbers from that
// lane on).
template <int parts, typename Store>
HWY_INLINE void separate(const float *HWY_RESTRICT x, int64_t width, const Store &store) {
  const FloatTag d;
  FloatVector v[8];
  for (int64_t l = 0; l < width; l += lanes, x += parts * lanes) {
    if constexpr (parts == 1)
      v[0] = hn::Load(d, x);
    else if constexpr (parts == 2)
      hn::LoadInterleaved2(d, x, v[0], v[1]);
    else
      hn::LoadInterleaved4(d, x, v[0], v[1], v[2], v[3]);
    if constexpr (parts == 8) {
      hn::LoadInterleaved4(d, x + 4 * lanes, v[4], v[5], v[6], v[7]);
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) {
        const FloatVector low = v[n], high = v[n + 4];
        v[n] = hn::ConcatEven(d, high, low), v[n + 4] = hn::ConcatOdd(d, high, low);
      }
    }
#pragma GCC unroll 8
    for (int n = 0; n < parts; ++n)
      store(n, l, v[n]);
  }
}

// x in the order of codes, of which `parts` lie in each of `width` lanes, by place(n, vector, to) for the n-th of all
// lanes; zeros beyond its columns. And its sum in each group.
template <int parts, int64_t width, typename Element, typename Place>
void layOut(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, const ThinWorkspace &thin, Element *out,
            const Place &place) {
  constexpr int64_t ordered = parts * width, block = CodeFactors::depthUnit;
  static_assert(block % ordered == 0 && block % panelWidth == 0);
  auto placeAt = [&](int n, int64_t lane, FloatVector value) HWY_ATTR { place(n, value, out + n * width + lane); };
  for (int64_t r = 0; r < rows; ++r) {
    const Row from = rowOf(x, row + r);
    float *sums = thin.sums + r * thin.groups;
    for (int64_t first = 0; first < thin.depth; first += block) {
      HWY_ALIGN float straight[block] = {};
      mapRow(straight, std::clamp<int64_t>(w.columns - first, 0, block),
             [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(from + first + i, n); });
      for (int64_t i = 0; i < block && first + i < w.stride; i += panelWidth, ++sums) {
        FloatVector sum = hn::Zero(FloatTag());
        for (int64_t k = i; k < i + panelWidth; k += lanes)
          sum = hn::Add(sum, hn::Load(FloatTag(), straight + k));
        *sums = sumOf(sum);
      }
      for (int64_t i = 0; i < block; i += ordered, out += ordered)
        separate<parts>(straight + i, width, placeAt);
    }
  }
}

// As multiplyCodes of this target takes it, and in bf16 as CodeFactors has it.
inline void layOutCodes(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, const ThinWorkspace &thin) {
  auto lay = [&](auto fourBits) HWY_ATTR {
    using Order = CodeOrder<fourBits>;
    layOut<Order::parts, Order::width>(x, row, rows, w, thin, thin.x, [](int n, FloatVector value, float *to) HWY_ATTR {
      hn::StoreU(hn::Mul(value, hn::Set(FloatTag(), Order::scaleOf(n))), FloatTag(), to);
    });
  };
  w.storage == Storage::Int4 ? lay(std::true_type()) : lay(std::false_type());
}
inline void layOutHalves(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, const ThinWorkspace &thin) {
  auto lay = [&](auto parts) HWY_ATTR {
    layOut<parts, CodeFactors::lanesOfCodes>(
        x, row, rows, w, thin, thin.halves(),
        [](int, FloatVector value, uint16_t *to) HWY_ATTR { hn::StoreU(roundToBf16(value), LaneTag<uint16_t>(), to); });
  };
  w.storage == Storage::Int4 ? lay(std::integral_constant<int, 4>()) : lay(std::integral_constant<int, 2>());
}

inline FloatVector widenHalves(const uint16_t *halves, int64_t count) {
  const hn::Rebind<hwy::float16_t, FloatTag> d;
  return hn::PromoteTo(FloatTag(), hn::BitCast(d, loadSome(halves, count)));
}

// tile[r][column + i] = x[r] w[i], i < Width.
template <int Rows, int Width, bool fourBits>
HWY_NOINLINE void multiplyCodes(const GroupedColumns &columns, int64_t row, const ThinWorkspace &thin, float *tile) {
  using Order = CodeOrder<fourBits>;
  const FloatTag d;
  const uint8_t *codes[Width];
  FloatVector sums[Width][Rows];
  // Of all rows at once, as they lie one behind the other: so there is one end that fills no vector.
  mapRow(thin.scales, Width * thin.groups,
         [&](int64_t i, int64_t n) HWY_ATTR { return widenHalves(columns.scale(row) + i, n); });
  mapRow(thin.minima, Width * thin.groups,
         [&](int64_t i, int64_t n) HWY_ATTR { return widenHalves(columns.minimum(row) + i, n); });
#pragma GCC unroll 4
  for (int w = 0; w < Width; ++w) {
    codes[w] = columns.codes(row + w);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      sums[w][r] = hn::Zero(d);
    for (int64_t g = 0; g < thin.groups; g += lanes) {
      const int64_t count = thin.groups - g;
      const FloatVector minimum = loadWithin(thin.minima + w * thin.groups + g, count);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r)
        sums[w][r] = hn::MulAdd(minimum, loadWithin(thin.sums + r * thin.groups + g, count), sums[w][r]);
    }
  }
  constexpr int64_t ordered = Order::parts * Order::width;
  auto add = [&](int64_t k, auto whole) HWY_ATTR {
    addCodes<Rows, Width, fourBits, whole>(codes, thin.x + k, thin.depth, thin.scales + k / panelWidth, thin.groups,
                                           thin.groups * panelWidth - k, sums);
  };
  int64_t k = 0;
  for (; k + ordered <= thin.groups * panelWidth; k += ordered)
    add(k, std::true_type());
  if constexpr (ordered > panelWidth)
    if (k < thin.groups * panelWidth)
      add(k, std::false_type());
#pragma GCC unroll 4
  for (int w = 0; w < Width; ++w)
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r)
      tile[r * panelWidth + w] = sumOf(sums[w][r]);
}

template <int Rows>
void multiplyCodeRows(int64_t rows, const Tensor &w, int64_t column, int64_t width, const ThinWorkspace &thin,
                      float *tile) {
  if constexpr (Rows > 1)
    if (rows < Rows)
      return multiplyCodeRows<Rows - 1>(rows, w, column, width, thin, tile);
  const GroupedColumns columns(w, 0);
  constexpr int atOnce = codeRowsAtOnce(Rows);
  static_assert(atOnce <= ThinWorkspace::thinWidth);
  auto multiply = [&](auto fourBits) HWY_ATTR {
    int64_t c = 0;
    for (; c + atOnce <= width; c += atOnce)
      multiplyCodes<Rows, atOnce, fourBits>(columns, column + c, thin, tile + c);
    for (; c < width; ++c)
      multiplyCodes<Rows, 1, fourBits>(columns, column + c, thin, tile + c);
  };
  if (columns.fourBits())
    multiply(std::true_type());
  else
    multiply(std::false_type());
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
