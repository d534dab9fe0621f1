// SPDX-License-Identifier: Apache-2.0
//
// The activations and their slopes.
#if defined(MEBP_ACTIVATION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_ACTIVATION_INL_H
#undef MEBP_ACTIVATION_INL_H
#else
#define MEBP_ACTIVATION_INL_H
#endif

#include <iterator>

#include "format/activations.h"
#include "runtime/backends/cpu/kernel/kernel.h"
#include "runtime/backends/cpu/vector/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

struct Curve {
  FloatVector value;
  FloatVector slope;
};

struct Sigmoid {
  FloatVector value; // 1 / (1 + exp(-x))
  FloatVector rest;  // 1 - value, without the cancellation
};

// The exponent is bounded, since what exponentialOf takes is: by a comparison, which leaves what is no number alone.
HWY_INLINE Sigmoid sigmoid(FloatVector x) {
  const FloatTag d;
  const FloatVector one = hn::Set(d, 1.0f), most = hn::Set(d, 87.0f), exponent = hn::Neg(x);
  FloatVector exponential = exponentialOf(hn::IfThenElse(hn::Gt(exponent, most), most, exponent));
  FloatVector value = hn::Div(one, hn::Add(one, exponential));
  return {value, hn::Mul(exponential, value)};
}

// tanh(x), which is sigmoid(2 |x|) - sigmoid(-2 |x|) with x's sign, and its slope.
struct Tangent {
  FloatVector value;
  FloatVector slope;
};
HWY_INLINE Tangent tangent(FloatVector x) {
  const FloatTag d;
  const FloatVector square = hn::Mul(x, x);
  Sigmoid s = sigmoid(hn::Mul(hn::Set(d, 2.0f), hn::Abs(x)));
  // Below 1/4, a series: the difference of two numbers near 1/2 would leave few digits.
  FloatVector series = hn::Set(d, 62.0f / 2835);
  for (float coefficient : {-17.0f / 315, 2.0f / 15, -1.0f / 3, 1.0f})
    series = hn::MulAdd(series, square, hn::Set(d, coefficient));
  FloatVector large = hn::CopySign(hn::Sub(s.value, s.rest), x);
  FloatVector value = hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.25f)), hn::Mul(x, series), large);
  return {value, hn::Mul(hn::Set(d, 4.0f), hn::Mul(s.value, s.rest))};
}

// exp(x) - 1 - x for x <= 88. Down to -1 by a series, since the difference would leave few digits.
HWY_INLINE FloatVector exponentialBeyondLine(FloatVector x) {
  const FloatTag d;
  FloatVector series = hn::Set(d, 1.0f / 3628800);
  for (float coefficient :
       {1.0f / 362880, 1.0f / 40320, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f})
    series = hn::MulAdd(series, x, hn::Set(d, coefficient));
  FloatVector large = hn::Sub(hn::Sub(exponentialOf(x), hn::Set(d, 1.0f)), x);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1.0f)), hn::Mul(hn::Mul(x, x), series), large);
}

template <Activation activation> struct Formula;

template <> struct Formula<Activation::Silu> {
  static HWY_INLINE Curve at(FloatVector x) {
    Sigmoid s = sigmoid(x);
    FloatVector value = hn::Mul(x, s.value);
    return {value, hn::MulAdd(value, s.rest, s.value)};
  }
};

template <> struct Formula<Activation::Relu> {
  static HWY_INLINE Curve at(FloatVector x) {
    const FloatTag d;
    const FloatVector zero = hn::Zero(d);
    return {hn::IfThenElse(hn::Le(x, zero), zero, x), hn::IfThenElseZero(hn::Gt(x, zero), hn::Set(d, 1.0f))};
  }
};

// x times the normal distribution's mass below x. With u = |x|, the mass beyond u is exp(-u^2 / 2) t p(t) where
// t = 1 / (1 + 0.35 u) and p is a polynomial fitted to 3e-9 relative.
template <> struct Formula<Activation::Gelu> {
  static HWY_INLINE Curve at(FloatVector x) {
    const FloatTag d;
    constexpr float coefficients[] = {0x1.1df4cap-3f, 0x1.1e18c2p-3f,  0x1.f33412p-4f, 0x1.774252p-4f,
                                      0x1.1f6924p-5f, 0x1.6fb2e8p-10f, 0x1.abc03p-6f,  -0x1.7b30d6p-3f,
                                      0x1.b31438p-3f, -0x1.9df3d2p-4f, 0x1.2ce098p-6f};
    constexpr int degree = 10;
    const FloatVector one = hn::Set(d, 1.0f);
    FloatVector t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.35f), hn::Abs(x), one));
    FloatVector p = hn::Set(d, coefficients[degree]);
#pragma GCC unroll 10
    for (int i = degree - 1; i >= 0; --i)
      p = hn::MulAdd(p, t, hn::Set(d, coefficients[i]));
    FloatVector exponential = exponentialOf(hn::Mul(hn::Set(d, -0.5f), hn::Mul(x, x)));
    FloatVector beyond = hn::Mul(exponential, hn::Mul(t, p));
    FloatVector below = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), beyond, hn::Sub(one, beyond));
    FloatVector density = hn::Mul(exponential, hn::Set(d, 0.398942280f)); // 1 / sqrt(2 pi)
    return {hn::Mul(x, below), hn::MulAdd(x, density, below)};
  }
};

// x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), which is the tanh form written without a difference.
template <> struct Formula<Activation::GeluTanh> {
  static HWY_INLINE Curve at(FloatVector x) {
    const FloatTag d;
    const FloatVector one = hn::Set(d, 1.0f), factor = hn::Set(d, 1.595769122f); // 2 sqrt(2 / pi)
    FloatVector cube = hn::Mul(hn::Set(d, 0.044715f), hn::Mul(x, x));
    Sigmoid s = sigmoid(hn::Mul(factor, hn::MulAdd(cube, x, x)));
    FloatVector value = hn::Mul(x, s.value);
    FloatVector inner = hn::Mul(factor, hn::MulAdd(hn::Set(d, 3.0f), cube, one));
    return {value, hn::MulAdd(hn::Mul(value, s.rest), inner, s.value)};
  }
};

template <> struct Formula<Activation::Sigmoid> {
  static HWY_INLINE Curve at(FloatVector x) {
    Sigmoid s = sigmoid(x);
    return {s.value, hn::Mul(s.value, s.rest)};
  }
};

// Calls body(Formula) for the activation, so that the choice is made outside of its loops.
template <size_t n = 0, typename Body> void withFormula(Activation activation, const Body &body) {
  if constexpr (n < std::size(format::activations)) {
    constexpr Activation own = format::activations[n].activation;
    if (activation == own)
      body(Formula<own>());
    else
      withFormula<n + 1>(activation, body);
  }
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
