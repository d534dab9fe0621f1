// SPDX-License-Identifier: Apache-2.0
//
// f32 vectors and what all kernels do with them: rows of either storage that end within a vector, sums over a row.
#if defined(MEBP_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_SIMD_INL_H
#undef MEBP_SIMD_INL_H
#else
#define MEBP_SIMD_INL_H
#endif

#include "runtime/backends/cpu/kernel/row.h"

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
constexpr int64_t lanes = hn::MaxLanes(FloatTag());

// As many elements of another type as a vector has floats.
template <typename T> using LaneTag = hn::Rebind<T, FloatTag>;
template <typename T> using LaneVector = hn::Vec<LaneTag<T>>;

// The first `count` of a vector's elements, zeros beyond; all of them where count is larger. Masked access is left to
// targets where it cannot fault beyond the row.
template <typename T> HWY_INLINE LaneVector<T> loadSome(const T *from, int64_t count) {
  const LaneTag<T> d;
  if (count >= lanes)
    return hn::LoadU(d, from);
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[lanes] = {};
  for (int64_t i = 0; i < count; ++i)
    buffer[i] = from[i];
  return hn::Load(d, buffer);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#endif
}
template <typename T> HWY_INLINE void storeSome(LaneVector<T> value, T *to, int64_t count) {
  const LaneTag<T> d;
  if (count >= lanes) {
    hn::StoreU(value, d, to);
    return;
  }
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[lanes];
  hn::Store(value, d, buffer);
  for (int64_t i = 0; i < count; ++i)
    to[i] = buffer[i];
#else
  hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#endif
}

HWY_INLINE FloatVector widen(LaneVector<uint16_t> halves) {
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(LaneTag<uint32_t>(), halves)));
}
HWY_INLINE FloatVector loadWide(const float *from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE FloatVector loadWide(const uint16_t *from) { return widen(hn::LoadU(LaneTag<uint16_t>(), from)); }

// The first `count` of a vector's floats, zeros beyond, where memory may be read.
HWY_INLINE FloatVector loadWithin(const float *from, int64_t count) {
  const FloatTag d;
  const FloatVector all = hn::LoadU(d, from);
  return count >= lanes ? all : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), all);
}

// As format::floatToBfloat.
HWY_INLINE LaneVector<uint16_t> roundToBf16(FloatVector value) {
  const LaneTag<uint32_t> d;
  auto bits = hn::BitCast(d, value);
  auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
  auto quiet = hn::Or(bits, hn::Set(d, 0x400000));
  auto chosen = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(value)), quiet, rounded);
  return hn::TruncateTo(LaneTag<uint16_t>(), hn::ShiftRight<16>(chosen));
}

HWY_INLINE FloatVector loadSome(Row from, int64_t count) {
  return from.isBf16() ? widen(loadSome(from.halves(), count)) : loadSome(from.floats(), count);
}
HWY_INLINE void storeSome(FloatVector value, Row to, int64_t count) {
  if (to.isBf16())
    storeSome(roundToBf16(value), to.halves(), count);
  else
    storeSome(value, to.floats(), count);
}

// Calls body(rows...) with a float * for each row where all are F32, so that only BF16 has to choose for each vector.
template <typename Body, typename... Rows> HWY_INLINE void withRows(const Body &body, Rows... rows) {
  if ((rows.isBf16() || ...))
    body(rows...);
  else
    body(rows.floats()...);
}

HWY_INLINE float sumOf(FloatVector value) {
  const FloatTag d;
  return hn::GetLane(hn::SumOfLanes(d, value));
}

template <typename D> HWY_INLINE hn::Vec<hn::Full128<float>> sumOfBlocks(D, hn::Vec<D> value) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return value;
  } else {
    const hn::Half<D> half;
    return sumOfBlocks(half, hn::Add(hn::LowerHalf(half, value), hn::UpperHalf(half, value)));
  }
}

// The sums of four vectors' lanes.
HWY_INLINE hn::Vec<hn::Full128<float>> sumsOf(FloatVector a, FloatVector b, FloatVector c, FloatVector e) {
  const FloatTag d;
  const hn::Repartition<uint64_t, FloatTag> pairs;
  auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  auto lower = hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
       upper = hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce));
  return sumOfBlocks(d, hn::Add(lower, upper));
}

// The sum of term(i, n), a vector whose lanes from n on are zero, over a row; four sums hide the latency.
template <typename Term> HWY_INLINE float sumRow(int64_t count, const Term &term) {
  const FloatTag d;
  FloatVector sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes)
    for (int64_t j = 0; j < 4; ++j)
      sums[j] = hn::Add(sums[j], term(i + j * lanes, lanes));
  for (; i < count; i += lanes)
    sums[0] = hn::Add(sums[0], term(i, count - i));
  return sumOf(hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

template <typename A, typename B> HWY_INLINE float dotRow(A a, B b, int64_t count) {
  return sumRow(count, [=](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(loadSome(a + i, n), loadSome(b + i, n)); });
}

// out[i] = value(i, n) over a row.
template <typename Out, typename Value> HWY_INLINE void mapRow(Out out, int64_t count, const Value &value) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    storeSome(value(i, lanes), out + i, lanes);
  if (i < count)
    storeSome(value(i, count - i), out + i, count - i);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
