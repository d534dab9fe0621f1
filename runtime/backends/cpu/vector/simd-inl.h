// SPDX-License-Identifier: Apache-2.0
//
// f32 vectors and what all kernels do with them: rows that end within a vector, sums over a row.
#if defined(MEBP_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_SIMD_INL_H
#undef MEBP_SIMD_INL_H
#else
#define MEBP_SIMD_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;
constexpr int64_t lanes = hn::MaxLanes(FloatTag());

// The first `count` of a vector's floats, zeros beyond; all of them where count is larger. Masked access is left to
// targets where it cannot fault beyond the row.
HWY_INLINE FloatVector loadSome(const float *from, int64_t count) {
  const FloatTag d;
  if (count >= lanes)
    return hn::LoadU(d, from);
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[lanes] = {};
  for (int64_t i = 0; i < count; ++i)
    buffer[i] = from[i];
  return hn::Load(d, buffer);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#endif
}
HWY_INLINE void storeSome(FloatVector value, float *to, int64_t count) {
  const FloatTag d;
  if (count >= lanes) {
    hn::StoreU(value, d, to);
    return;
  }
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[lanes];
  hn::Store(value, d, buffer);
  for (int64_t i = 0; i < count; ++i)
    to[i] = buffer[i];
#else
  hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#endif
}

HWY_INLINE float sumOf(FloatVector value) {
  const FloatTag d;
  return hn::GetLane(hn::SumOfLanes(d, value));
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

HWY_INLINE float dotRow(const float *a, const float *b, int64_t count) {
  return sumRow(count, [=](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(loadSome(a + i, n), loadSome(b + i, n)); });
}

// out[i] = value(i, n) over a row.
template <typename Value> HWY_INLINE void mapRow(float *out, int64_t count, const Value &value) {
  for (int64_t i = 0; i < count; i += lanes)
    storeSome(value(i, count - i), out + i, count - i);
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
