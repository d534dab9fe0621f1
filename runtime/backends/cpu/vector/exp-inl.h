// SPDX-License-Identifier: Apache-2.0
//
// exp(x) in half of Highway's instructions: activations and the softmax spend most of their time in it.
#if defined(MEBP_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_EXP_INL_H
#undef MEBP_EXP_INL_H
#else
#define MEBP_EXP_INL_H
#endif

#include "runtime/backends/cpu/vector/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// For x <= 88; zero below -87. With x = (n + r) log 2 and |r| <= 1/2: 2^n p(r), p fitted to 2^r within 9.4e-8 relative,
// and 1 at 0. So 2e-7 from exp(x) near 0, and |x| 2^-26 where x is large.
HWY_INLINE FloatVector exponentialOf(FloatVector x) {
  const FloatTag d;
  constexpr float coefficients[] = {1.0f,           0x1.62e42ap-1f, 0x1.ebf9c2p-3f,
                                    0x1.c6b6d8p-5f, 0x1.3ce8bp-7f,  0x1.5bda76p-10f};
  const FloatVector toPowersOfTwo = hn::Set(d, 1.44269504f);
  // Its last bits count ones, so that a sum with it is a whole number, in the place of an exponent if shifted.
  const FloatVector ones = hn::Set(d, 0x1.8p23f + 127);
  FloatVector shifted = hn::MulAdd(x, toPowersOfTwo, ones);
  FloatVector r = hn::MulSub(x, toPowersOfTwo, hn::Sub(shifted, ones));
  FloatVector p = hn::Set(d, coefficients[5]);
#pragma GCC unroll 5
  for (int i = 4; i >= 0; --i)
    p = hn::MulAdd(p, r, hn::Set(d, coefficients[i]));
  FloatVector power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(LaneTag<uint32_t>(), shifted)));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Zero(d), hn::Mul(p, power));
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
