// SPDX-License-Identifier: Apache-2.0
//
// The product of one tile by AMX with work in the slots between its instructions. Every step of 32 of the depth does
// one kind of work, so that a slot has neither a branch nor an address to compute.
#pragma once

#include "runtime/backends/cpu/products/amx-inl.h"

#if defined(__x86_64__)

#include "runtime/backends/cpu/products/avx512_rows-inl.h"
#include "runtime/backends/cpu/products/fused_products.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")

namespace mebp::cpu::amx {

constexpr int64_t rowsOfStep = 16; // of a weight that a step expands, two in a slot

inline float *scalesOf(const SlotWork &work) { return work.room; }
inline float *minimaOf(const SlotWork &work) { return work.room + Bf16Products::maximumDepth; }
inline uint16_t *lyingOf(const SlotWork &work) {
  return reinterpret_cast<uint16_t *>(work.room + 2 * Bf16Products::maximumDepth);
}
static_assert(SlotWork::roomFloats == 2 * Bf16Products::maximumDepth + rowsOfStep * width / 2);
static_assert(SlotWork::roomFloats * sizeof(float) <= 2 * Bf16Products::maximumDepth * width * sizeof(uint16_t),
              "of the workspace's four panels, two are free for it");

// Sixteen rows of w in 32 columns, rounded, as they lie.
template <Storage storage> struct RowsPart {
  const uint8_t *from;
  int64_t stride;
  const float *scales, *minima;
  uint16_t *to;

  template <int slot> HWY_INLINE void run() {
    const avx512::TwoRows rows =
        avx512::load<storage>(from, from + stride, 0, scales + 2 * slot, minima + 2 * slot, ~__mmask32(0));
    _mm512_store_si512(to + 2 * slot * width, rows.first);
    _mm512_store_si512(to + (2 * slot + 1) * width, rows.second);
    from += 2 * stride;
  }
};

// Their pairs transposed: four pairs of all sixteen in two slots. Quarters are put together as they are loaded.
struct TransposedPart {
  const __m128i *from;
  uint32_t *to;
  __m512i a = {}, b = {}, c = {}, d = {};

  HWY_INLINE __m512i quarters(int row, int quarter) const {
    constexpr int next = 4 * width / 8; // four rows further
    const __m128i *first = from + row * width / 8 + quarter;
    __m512i value = _mm512_castsi128_si512(_mm_load_si128(first));
    value = _mm512_mask_broadcast_i32x4(value, 0x00F0, _mm_load_si128(first + next));
    value = _mm512_mask_broadcast_i32x4(value, 0x0F00, _mm_load_si128(first + 2 * next));
    return _mm512_mask_broadcast_i32x4(value, 0xF000, _mm_load_si128(first + 3 * next));
  }
  template <int slot> HWY_INLINE void run() {
    constexpr int quarter = slot / 2;
    if constexpr (slot % 2 == 0) {
      a = quarters(0, quarter), b = quarters(1, quarter), c = quarters(2, quarter), d = quarters(3, quarter);
    } else {
      uint32_t *out = to + 4 * quarter * width;
      const __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
      const __m512i highAb = _mm512_unpackhi_epi32(a, b), highCd = _mm512_unpackhi_epi32(c, d);
      _mm512_storeu_si512(out, _mm512_unpacklo_epi64(ab, cd));
      _mm512_storeu_si512(out + width, _mm512_unpackhi_epi64(ab, cd));
      _mm512_storeu_si512(out + 2 * width, _mm512_unpacklo_epi64(highAb, highCd));
      _mm512_storeu_si512(out + 3 * width, _mm512_unpackhi_epi64(highAb, highCd));
    }
  }
};

// Sixteen rows of the depth, neighbours interleaved.
template <Storage storage> struct PairsPart {
  const uint8_t *from;
  int64_t stride;
  const float *scales, *minima;
  uint16_t *to;
  __m512i low = avx512::firstPairs(), high = _mm512_add_epi16(low, _mm512_set1_epi16(16));

  template <int slot> HWY_INLINE void run() {
    const avx512::TwoRows rows =
        avx512::load<storage>(from, from + stride, 0, scales + 2 * slot, minima + 2 * slot, ~__mmask32(0));
    _mm512_storeu_si512(to + 2 * slot * width, _mm512_permutex2var_epi16(rows.first, low, rows.second));
    _mm512_storeu_si512(to + (2 * slot + 1) * width, _mm512_permutex2var_epi16(rows.first, high, rows.second));
    from += 2 * stride;
  }
};

struct EndingPart {
  SlotWork &work;
  template <int> HWY_INLINE void run() {
    if (work.rowsDone < work.rows)
      work.finish(work.sums, work.rowsDone++);
  }
};

template <typename Tiles> struct EmptyPart {
  template <int> HWY_INLINE void run() { Tiles::space(); }
};

// Calls body(the next part of the expansion). A transposed panel has four parts for 32 of the depth: rows and their
// transposition, for each half of its columns; another has two.
template <Storage storage, bool transposed, typename Body>
HWY_INLINE void withPart(const SlotWork &work, const Body &body) {
  const Tensor &w = *work.w;
  const auto stride = static_cast<int64_t>(format::bytesOf(storage, w.stride));
  const int64_t part = work.partsDone;
  const auto *data = static_cast<const uint8_t *>(w.data) + work.row * stride + format::bytesOf(storage, work.column);
  if constexpr (transposed) {
    const int64_t d = part / 4 * depthUnit, half = part / 2 % 2 * rowsOfStep;
    if (part % 2)
      return body(TransposedPart{reinterpret_cast<const __m128i *>(lyingOf(work)),
                                 reinterpret_cast<uint32_t *>(work.panel + d * width) + half});
    const int64_t scale = (work.column % w.group + d) / w.group * width + half;
    body(RowsPart<storage>{data + half * stride + format::bytesOf(storage, d), stride, scalesOf(work) + scale,
                           minimaOf(work) + scale, lyingOf(work)});
  } else {
    const int64_t d = part * rowsOfStep;
    body(PairsPart<storage>{data + d * stride, stride, scalesOf(work) + d, minimaOf(work) + d, work.panel + d * width});
  }
}

// What can be cut into parts. Calls body(its storage, whether it is transposed), of what cannot with any.
template <typename Body> void withExpansion(const SlotWork &work, const Body &body) {
  const bool bytes = work.parts > 0 && work.w->storage == Storage::Int8;
  using Nibbles = std::integral_constant<Storage, Storage::Int4>;
  using Bytes = std::integral_constant<Storage, Storage::Int8>;
  if (work.transposed)
    bytes ? body(Bytes(), std::true_type()) : body(Nibbles(), std::true_type());
  else
    bytes ? body(Bytes(), std::false_type()) : body(Nibbles(), std::false_type());
}

inline void beginExpansion(SlotWork &work) {
  const Tensor &w = *work.w;
  work.partsDone = 0;
  const bool quantised = w.storage == Storage::Int4 || w.storage == Storage::Int8;
  if (!quantised || (work.transposed && work.row + width > w.rows)) {
    work.parts = 0;
    return work.transposed ? avx512::expandTransposed(w, work.row, work.column, work.count, work.panel)
                           : avx512::expand(w, work.row, work.count, work.column, work.panel);
  }
  const int64_t groupsOfRow = w.stride / w.group, first = work.row * groupsOfRow + work.column / w.group;
  if (work.transposed) {
    const int64_t groups = (work.column % w.group + work.count + w.group - 1) / w.group;
    avx512::widenTransposed(w.scales + first, groupsOfRow, width, groups, scalesOf(work));
    avx512::widenTransposed(w.minima + first, groupsOfRow, width, groups, minimaOf(work));
    work.parts = (work.count + depthUnit - 1) / depthUnit * 4;
    return;
  }
  const int64_t whole = work.count / depthUnit * depthUnit;
  if (whole < work.count)
    avx512::expand(w, work.row + whole, work.count - whole, work.column, work.panel + whole * width);
  avx512::widenColumn(w.scales + first, groupsOfRow, whole, scalesOf(work));
  avx512::widenColumn(w.minima + first, groupsOfRow, whole, minimaOf(work));
  work.parts = whole / rowsOfStep;
}

template <int... slots, typename Part> void runWhole(std::integer_sequence<int, slots...>, Part part) {
  (part.template run<slots>(), ...);
}

inline void endExpansion(SlotWork &work) {
  withExpansion(work, [&](auto storage, auto transposed) {
    for (; work.partsDone < work.parts; ++work.partsDone)
      withPart<storage(), transposed()>(work, [](auto part) { runWhole(StepInstructions(), part); });
  });
}

template <typename Tiles, int... instructions, typename Part>
HWY_INLINE void multiplyStep(std::integer_sequence<int, instructions...>, const uint16_t *left, int64_t leftStride,
                             const uint16_t *panel, Part part) {
  ((runInstruction<Tiles, instructions>(left, leftStride, panel), part.template run<instructions>()), ...);
}

template <typename Tiles>
void multiplyFused(int64_t depth, const uint16_t *left, int64_t leftStride, const uint16_t *panel, float *sums,
                   int64_t sumsStride, bool adds, SlotWork &work) {
  beginSums<Tiles>(sums, sumsStride, adds);
  withExpansion(work, [&](auto storage, auto transposed) {
    for (int64_t d = 0; d < depth; d += depthUnit, left += depthUnit, panel += depthUnit * width, ++work.stepsDone) {
      auto step = [&](auto part) { multiplyStep<Tiles>(StepInstructions(), left, leftStride, panel, part); };
      if (work.mustExpand())
        withPart<storage(), transposed()>(work, step), ++work.partsDone;
      else if (work.rowsDone < work.rows)
        step(EndingPart{work});
      else
        step(EmptyPart<Tiles>());
    }
  });
  storeSums<Tiles>(sums, sumsStride);
}

template <typename Tiles>
inline constexpr FusedProducts fusedProducts = {beginExpansion, multiplyFused<Tiles>, endExpansion};

} // namespace mebp::cpu::amx

HWY_POP_ATTRIBUTES

#endif
