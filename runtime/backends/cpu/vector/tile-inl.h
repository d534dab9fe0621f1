// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel under all matrix products: C[rows, columns] (+)= A B with A's elements broadcast and B a panel whose
// rows are contiguous. Sums stay in registers for a chain of the depth.
#if defined(MEBP_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_TILE_INL_H
#undef MEBP_TILE_INL_H
#else
#define MEBP_TILE_INL_H
#endif

#include "runtime/backends/cpu/vector/simd-inl.h"

#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
#include "runtime/backends/cpu/vector/tile_neon-inl.h"
#endif

#include <utility>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t panelWidth = 32;
constexpr int64_t lineOfHalves = 32; // of the caches, in numbers of BF16

// What fits the registers: rows * vectors accumulators, `vectors` of B and one of A.
#if HWY_TARGET == HWY_AVX3
constexpr int registerRows = 12, registerVectors = 2;
#elif HWY_TARGET == HWY_NEON
constexpr int registerRows = 6, registerVectors = 4;
#else
constexpr int registerRows = 6, registerVectors = 2;
#endif

// Calls body(first row, how many) for tiles of at most `most` rows. Even shares rather than a thin rest, where a thin
// tile is as fast as its rows are few.
template <typename Body> HWY_INLINE void forEachTile(int64_t rows, int64_t most, bool whole, const Body &body) {
  int64_t tiles = (rows + most - 1) / most;
  auto firstOf = [&](int64_t tile) { return whole ? tile * most : rows * tile / tiles; };
  for (int64_t tile = 0; tile < tiles; ++tile)
    body(firstOf(tile), std::min(firstOf(tile + 1), rows) - firstOf(tile));
}

// Element (r, k) is data[r * rowStride + k * depthStride]; one of the strides is 1.
struct LeftOperand {
  const float *data;
  int64_t rowStride;
  int64_t depthStride;

  LeftOperand at(int64_t row, int64_t depth) const {
    return {data + row * rowStride + depth * depthStride, rowStride, depthStride};
  }
};

inline int64_t wholeVectors(int64_t count) { return (count + lanes - 1) / lanes * lanes; }

// An activation, or its transpose, whose blocks are left operands.
struct LeftMatrix {
  const Tensor &tensor;
  bool transposed = false;

  // How many of `rows` to take at once: all from where they lie, or a tile's widened, or fewer where the room is small.
  int64_t rowsAtOnce(int64_t rows, int64_t count, int64_t roomFloats) const {
    if (tensor.storage == Storage::F32)
      return rows;
    int64_t fitting = transposed ? roomFloats / count / lanes * lanes : roomFloats / wholeVectors(count);
    return std::min<int64_t>({rows, registerRows, fitting});
  }

  // Rows [row, row + rows) of [depth, depth + count): where they lie, or where they are BF16 widened into `room`, which
  // takes the tensor's rows of the block, each in whole vectors.
  LeftOperand block(int64_t row, int64_t rows, int64_t depth, int64_t count, float *room) const {
    if (transposed) {
      std::swap(row, depth);
      std::swap(rows, count);
    }
    LeftOperand lying = straight(row, rows, depth, count, room);
    return transposed ? LeftOperand{lying.data, lying.depthStride, lying.rowStride} : lying;
  }

private:
  LeftOperand straight(int64_t row, int64_t rows, int64_t column, int64_t columns, float *room) const {
    if (tensor.storage == Storage::F32)
      return {floatRowOf(tensor, row) + column, tensor.stride, 1};
    if (columns == tensor.stride) { // of LoRA's few columns rows adjoin, and are one
      const uint16_t *all = rowOf(tensor, row).halves();
      mapRow(room, rows * columns, [&](int64_t i, int64_t n) HWY_ATTR { return widen(loadSome(all + i, n)); });
      return {room, columns, 1};
    }
    const FloatTag d;
    int64_t stride = wholeVectors(columns), left = tensor.columns - column;
    int64_t whole = std::min(stride, left / lanes * lanes); // what lies beyond the block in the row makes whole vectors
    const uint16_t *from = (rowOf(tensor, row) + column).halves();
    float *to = room;
    const int64_t next = transposed ? columns : rows * tensor.stride; // what is asked for next comes meanwhile
    for (int64_t r = 0; r < rows; ++r, from += tensor.stride, to += stride) {
      for (int64_t c = 0; c < columns; c += lineOfHalves)
        __builtin_prefetch(from + next + c, 0, 3);
      for (int64_t c = 0; c < whole; c += lanes)
        hn::Store(widen(loadSome(from + c, lanes)), d, to + c);
      if (whole < stride)
        hn::Store(widen(loadSome(from + whole, left - whole)), d, to + whole);
    }
    return {room, stride, 1};
  }
};

// Products that are summed one after the other before their sum is added to that of the chains before: an error grows
// with the length of a chain and the number of chains, which together are far less than the depth.
constexpr int64_t chain = 32;

// Panels are of floats or, where they lie in an activation, of BF16.
template <int Rows, int Vectors, typename Element>
HWY_NOINLINE void multiplyRegisters(int64_t depth, LeftOperand left, const Element *HWY_RESTRICT panel,
                                    int64_t panelStride, float *HWY_RESTRICT out, int64_t outStride, bool accumulate) {
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  if (left.depthStride == 1)
    multiplyLanes<false, Rows, Vectors, chain>(depth, left.data, left.rowStride, panel, panelStride, out, outStride,
                                               accumulate);
  else
    multiplyLanes<true, Rows, Vectors, chain>(depth, left.data, left.depthStride, panel, panelStride, out, outStride,
                                              accumulate);
#else
  const FloatTag d;
  // Three rows share a pointer, so that the addresses of twelve fit the general registers.
  constexpr int pointers = (Rows + 2) / 3;
  const float *rows[pointers];
#pragma GCC unroll 16
  for (int p = 0; p < pointers; ++p)
    rows[p] = left.data + 3 * p * left.rowStride;
  FloatVector sums[Rows][Vectors], right[Vectors];
  auto take = [&]() HWY_ATTR __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      right[v] = loadWide(panel + v * lanes);
    panel += panelStride;
  };
  auto valueOf = [&](int r) HWY_ATTR
      __attribute__((always_inline)) { return hn::Set(d, rows[r / 3][r % 3 * left.rowStride]); };
  auto advance = [&]() HWY_ATTR __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int p = 0; p < pointers; ++p)
      rows[p] += left.depthStride;
  };
  auto multiply = [&](int64_t count) HWY_ATTR __attribute__((always_inline)) {
    for (; count > 0; --count) {
      take();
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        FloatVector value = valueOf(r);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v)
          sums[r][v] = hn::MulAdd(value, right[v], sums[r][v]);
      }
      advance();
    }
  };
  auto keep = [&](int r, int v) HWY_ATTR __attribute__((always_inline)) {
    float *to = out + r * outStride + v * lanes;
    hn::StoreU(accumulate ? hn::Add(hn::LoadU(d, to), sums[r][v]) : sums[r][v], d, to);
  };
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      sums[r][v] = hn::Zero(d);
  multiply(std::min(chain, depth));
  while ((depth -= chain) > 0) {
    // Between the stores come products of the next chain: so many stores at once hold up what follows on a Zen 3. That
    // these start from no zero leaves the bits as they are.
    take();
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      FloatVector value = valueOf(r);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        keep(r, v);
        sums[r][v] = hn::Mul(value, right[v]);
      }
    }
    advance();
    accumulate = true;
    multiply(std::min(chain, depth) - 1);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v)
      keep(r, v);
#endif
}

template <int Rows, typename Element>
void multiplyRowCount(int64_t count, int64_t columns, int64_t depth, LeftOperand left, const Element *panel,
                      int64_t panelStride, float *out, int64_t outStride, bool accumulate) {
  if constexpr (Rows > 1)
    if (count < Rows)
      return multiplyRowCount<Rows - 1>(count, columns, depth, left, panel, panelStride, out, outStride, accumulate);
  if (columns <= lanes)
    multiplyRegisters<Rows, 1>(depth, left, panel, panelStride, out, outStride, accumulate);
  else if (registerVectors > 2 && columns <= 2 * lanes) // LoRA's rank of 8
    multiplyRegisters<Rows, 2>(depth, left, panel, panelStride, out, outStride, accumulate);
  else
    multiplyRegisters<Rows, registerVectors>(depth, left, panel, panelStride, out, outStride, accumulate);
}

// out[rows, columns] (+)= left[rows, depth] panel[depth, columns], any number of rows. Columns are rounded up to whole
// registers, at most to the next multiple of panelWidth: panel and out must have room. The columns of a register tile
// meet all rows before the next do: they stay in the first cache.
template <typename Element>
void multiplyTile(int64_t rows, int64_t columns, int64_t depth, LeftOperand left, const Element *panel,
                  int64_t panelStride, float *out, int64_t outStride, bool accumulate) {
  for (int64_t column = 0; column < columns; column += registerVectors * lanes)
    forEachTile(rows, registerRows, false, [&](int64_t first, int64_t height) HWY_ATTR {
      multiplyRowCount<registerRows>(height, columns - column, depth, left.at(first, 0), panel + column, panelStride,
                                     out + first * outStride + column, outStride, accumulate);
    });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
