// SPDX-License-Identifier: Apache-2.0
//
// Products of so few rows that their time is that of reading the weight: each of its rows is read once, from where it
// lies, widened in registers and multiplied with every row of x.
//
// Of a quantised row, w = scale * code + minimum in groups: x w = sum over groups of scale (x code) + minimum (sum of
// x). So codes are multiplied as they are, and the minima need one product a group.
#if defined(MEBP_THIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_THIN_INL_H
#undef MEBP_THIN_INL_H
#else
#define MEBP_THIN_INL_H
#endif

#include "runtime/backends/cpu/vector/panels-inl.h"

#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
#include "runtime/backends/cpu/vector/codes_neon-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t thinRows = CodeFactors::maximumRows;

// What a task has in its workspace, and behind it what all tasks read in the first thread's.
struct ThinWorkspace {
  static constexpr int64_t thinWidth = 4, apart = 32; // floats, so that no thread writes beside what others read
  int64_t depth, groups;                              // of a row, in whole groups
  float *lowPanel, *lowRoom;                          // of a product of low rank
  float *scales, *minima;                             // [thinWidth, groups], of rows of the weight
  float *x;    // [rows, depth], as codes come out of their bytes; halves of them in bf16
  float *sums; // [rows, groups], of x in each group; a whole vector may be read from the last one on

  ThinWorkspace(unsigned char *workspace, int64_t rows, const Tensor &w)
      : depth(w.stride), groups(groupsOf(w)), lowPanel(reinterpret_cast<float *>(workspace)),
        lowRoom(lowPanel + LowRank::panelFloats), scales(lowRoom + thinRows * maximumLowRank),
        minima(scales + scalesOf(w)), x(minima + scalesOf(w)), sums(x + rows * depth) {}

  uint16_t *halves() const { return reinterpret_cast<uint16_t *>(x); }

  static bool fits(int64_t rows, const Tensor &w) {
    const int64_t floats =
        LowRank::panelFloats + thinRows * maximumLowRank + 2 * scalesOf(w) + rows * (w.stride + groupsOf(w)) + lanes;
    return floats * int64_t{sizeof(float)} <= int64_t{workspaceBytes};
  }

private:
  static int64_t groupsOf(const Tensor &w) { return quantized(w) ? w.stride / w.group : 0; }
  static int64_t scalesOf(const Tensor &w) { return (ceilDivide(thinWidth * groupsOf(w), apart) + 1) * apart; }
};

inline void storeThin(FloatVector value, float *to) { hn::StoreU(value, FloatTag(), to); }
inline void storeThin(FloatVector value, uint16_t *to) { hn::StoreU(roundToBf16(value), LaneTag<uint16_t>(), to); }

// x in the order of codes in their bytes, which for int4 have two neighbours: the even ones of 32 come first. `Element`
// float, or uint16_t for an x of bf16.
template <typename Element>
void layOutThin(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, const ThinWorkspace &thin, Element *out) {
  constexpr int64_t half = panelWidth / 2;
  const bool isInterleaved = w.storage == Storage::Int4;
  for (int64_t r = 0; r < rows; ++r) {
    const Row from = rowOf(x, row + r);
    float *sums = thin.sums + r * thin.groups;
    std::fill_n(sums, thin.groups, 0.0f);
    for (int64_t first = 0; first < thin.depth; first += panelWidth, out += panelWidth) {
      const int64_t count = std::clamp<int64_t>(w.columns - first, 0, panelWidth);
      HWY_ALIGN float panel[panelWidth] = {}, ordered[panelWidth];
      mapRow(panel, count, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(from + first + i, n); });
      for (int64_t i = 0; i < half && isInterleaved; i += lanes) {
        FloatVector even, odd;
        hn::LoadInterleaved2(FloatTag(), panel + 2 * i, even, odd);
        hn::Store(even, FloatTag(), ordered + i);
        hn::Store(odd, FloatTag(), ordered + half + i);
      }
      FloatVector sum = hn::Zero(FloatTag());
      for (int64_t i = 0; i < panelWidth; i += lanes) {
        const FloatVector value = hn::Load(FloatTag(), (isInterleaved ? ordered : panel) + i);
        sum = hn::Add(sum, value);
        storeThin(value, out + i);
      }
      sums[first / w.group] += sumOf(sum);
    }
  }
}

inline FloatVector widenHalves(const uint16_t *halves, int64_t count) {
  const hn::Rebind<hwy::float16_t, FloatTag> d;
  return hn::PromoteTo(FloatTag(), hn::BitCast(d, loadSome(halves, count)));
}

// Zeros from `count` on, where memory may be read.
inline FloatVector loadWithin(const float *from, int64_t count) {
  const FloatTag d;
  const FloatVector all = hn::LoadU(d, from);
  return count >= lanes ? all : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), all);
}

// tile[r][column + i] = x[r] w[i], i < Width.
template <int Rows, int Width, bool fourBits>
HWY_NOINLINE void multiplyCodes(const GroupedColumns &columns, int64_t row, const ThinWorkspace &thin, float *tile) {
  const FloatTag d;
  [[maybe_unused]] const hn::RebindToSigned<FloatTag> integers;
  [[maybe_unused]] const hn::Rebind<uint8_t, FloatTag> bytes;
  constexpr int64_t half = panelWidth / 2;
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
  const float *x = thin.x;
  const int64_t group = thin.depth / thin.groups;
  for (int64_t g = 0; g < thin.groups; ++g) {
#pragma GCC unroll 4
    for (int w = 0; w < Width; ++w)
      __builtin_prefetch(codes[w] + CodeFactors::ahead, 0, 3);
    FloatVector products[Width][Rows];
#pragma GCC unroll 4
    for (int w = 0; w < Width; ++w)
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r)
        products[w][r] = hn::Zero(d);
    for (int64_t end = (g + 1) * group; x < thin.x + end; x += panelWidth) {
#pragma GCC unroll 4
      for (int w = 0; w < Width; ++w) {
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
        float32x4_t widened[2][4];
        widenCodes<fourBits>(codes[w], widened[0], widened[1]);
#endif
#pragma GCC unroll 4
        for (int64_t i = 0; i < half; i += lanes) {
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
          const FloatVector first(widened[0][i / lanes]), second(widened[1][i / lanes]);
#else
          auto low = hn::PromoteTo(integers, hn::LoadU(bytes, codes[w] + i));
          auto high =
              fourBits ? hn::ShiftRight<4>(low) : hn::PromoteTo(integers, hn::LoadU(bytes, codes[w] + half + i));
          if (fourBits)
            low = hn::And(low, hn::Set(integers, 15));
          const FloatVector first = hn::ConvertTo(d, low), second = hn::ConvertTo(d, high);
#endif
#pragma GCC unroll 4
          for (int r = 0; r < Rows; ++r) {
            const float *from = x + r * thin.depth + i;
            products[w][r] = hn::MulAdd(first, hn::LoadU(d, from), products[w][r]);
            products[w][r] = hn::MulAdd(second, hn::LoadU(d, from + half), products[w][r]);
          }
        }
        codes[w] += fourBits ? half : panelWidth;
      }
    }
#pragma GCC unroll 4
    for (int w = 0; w < Width; ++w) {
      const FloatVector scale = hn::Set(d, thin.scales[w * thin.groups + g]);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r)
        sums[w][r] = hn::MulAdd(scale, products[w][r], sums[w][r]);
    }
  }
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
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64 // where the codes of a row take eight of 32 registers
  constexpr int atOnce = ThinWorkspace::thinWidth / (Rows == 3 ? 2 : Rows);
#else
  constexpr int atOnce = Rows <= 2 ? ThinWorkspace::thinWidth : 2;
#endif
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

// Of a weight that is not quantised.
inline void multiplyRowsThin(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, int64_t column, int64_t width,
                             float *tile) {
  for (int64_t c = 0; c < width; ++c)
    for (int64_t r = 0; r < rows; ++r)
      withRows([&](auto a, auto b) HWY_ATTR { tile[r * panelWidth + c] = dotRow(a, b, w.columns); }, rowOf(x, row + r),
               rowOf(w, column + c));
}

// Of a weight in blocks: 32 numbers of it are expanded, and multiplied with every row of x.
inline void multiplyBlocksThin(const Tensor &x, int64_t row, int64_t rows, const Tensor &w, int64_t column,
                               int64_t width, float *tile) {
  for (int64_t c = 0; c < width; ++c) {
    FloatVector sums[thinRows];
    for (int64_t r = 0; r < rows; ++r)
      sums[r] = hn::Zero(FloatTag());
    forEachPieceOf(w, column + c, [&](int64_t k, const float *piece) HWY_ATTR {
      for (int64_t r = 0; r < rows; ++r)
        withRows(
            [&](auto values) HWY_ATTR {
              for (int64_t i = 0; i < panelWidth; i += lanes)
                sums[r] = hn::MulAdd(hn::Load(FloatTag(), piece + i), loadSome(values + i, lanes), sums[r]);
            },
            rowOf(x, row + r) + k);
    });
    for (int64_t r = 0; r < rows; ++r)
      tile[r * panelWidth + c] = sumOf(sums[r]);
  }
}

// Of so many rows of x, of which a thread's workspace has room for.
template <typename Finish>
void multiplyThinRows(const Context &context, const Bf16Products *products, const Tensor &x, int64_t row, int64_t rows,
                      const Tensor &w, const LowRank &low, const Finish &finish) {
  const bool inBf16 = products && products->multiplyCodes && quantized(w) && w.group == panelWidth;
  // Laid out once: beside what the first thread has of its own in its workspace.
  const ThinWorkspace shared(context.workspace, rows, w);
  if (inBf16)
    layOutThin(x, row, rows, w, shared, shared.halves());
  else if (quantized(w))
    layOutThin(x, row, rows, w, shared, shared.x);
  // Handing work over takes as long as multiplying 32 thousand weights, and a task is long beside finding it.
  constexpr int64_t worthThreads = 1 << 16, ofTask = 1 << 14;
  const int64_t panels = ceilDivide(w.rows, panelWidth);
  const int64_t share = w.rows * w.columns < worthThreads ? panels : ceilDivide(ofTask, w.columns * panelWidth);
  parallelFor(context, ceilDivide(panels, share), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    ThinWorkspace thin(workspace, rows, w);
    thin.x = shared.x, thin.sums = shared.sums;
    HWY_ALIGN float tile[thinRows * panelWidth];
    for (int64_t panel = task * share; panel < std::min(panels, (task + 1) * share); ++panel) {
      const int64_t column = panel * panelWidth, width = std::min(panelWidth, w.rows - column);
      if (inBf16)
        products->multiplyCodes({w, rows, thin.groups, thin.halves(), thin.sums, thin.scales}, column, width, tile);
      else if (quantized(w))
        multiplyCodeRows<thinRows>(rows, w, column, width, thin, tile);
      else if (isInBlocks(w))
        multiplyBlocksThin(x, row, rows, w, column, width, tile);
      else
        multiplyRowsThin(x, row, rows, w, column, width, tile);
      if (low.present()) {
        low.expand(column, thin.lowPanel);
        low.addTo(tile, row, rows, width, thin.lowPanel, thin.lowRoom);
      }
      finish(Products{row, rows, column, width, tile, true, true, nullptr});
    }
  });
}

// x[rows, depth] w[columns, depth]^T; `finish` as multiplyPanels has it, `products` as it has them for bf16. A row has
// the same bits whatever is beside it. False where the workspace is too small, or where panels are faster.
template <typename Finish>
bool multiplyThin(const Context &context, const Bf16Products *products, const Tensor &x, const Tensor &w,
                  const LowRank &low, const Finish &finish) {
  int64_t most = thinRows;
  while (most > 0 && !ThinWorkspace::fits(most, w))
    --most;
  const bool isSideBySide = context.sequence == 1; // else of one sequence, whose rows are to be as if they came alone
  if (most == 0 || (isSideBySide && x.rows > thinRows))
    return false;
  for (int64_t row = 0; row < x.rows; row += most)
    multiplyThinRows(context, products, x, row, std::min(most, x.rows - row), w, low, finish);
  return true;
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
