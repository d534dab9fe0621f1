// SPDX-License-Identifier: Apache-2.0
//
// x, y [N,F], F a multiple of head_dim; starts [N,1]; frequencies [f], 2 f <= head_dim. Pairs lie in halves, or
// interleaved. Sines and cosines of a position are computed once for all heads: the angle is the f32 product that
// models were trained with, the rest is in double.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/rope.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/simd-inl.h"
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// cosines[i], sines[i] = scale * cos, sin (position * frequencies[i]).
static void prepareAngles(const Attributes &attributes, float position, float *cosines, float *sines) {
  const hn::ScalableTag<double> d;
  constexpr int64_t width = hn::MaxLanes(hn::ScalableTag<double>());
  for (int64_t i = 0; i < attributes.frequencyCount; i += width) {
    int64_t count = std::min<int64_t>(width, attributes.frequencyCount - i);
    HWY_ALIGN double angles[width] = {}, cosine[width], sine[width];
    for (int64_t j = 0; j < count; ++j)
      angles[j] = static_cast<double>(position * attributes.frequencies[i + j]);
    // Sin and Cos are exact for small angles only: leave the whole turns out.
    auto angle = hn::Load(d, angles);
    auto turns = hn::Round(hn::Mul(angle, hn::Set(d, 0.15915494309189535)));
    angle = hn::NegMulAdd(turns, hn::Set(d, 6.283185307179586), angle);
    auto scale = hn::Set(d, static_cast<double>(attributes.scale));
    hn::Store(hn::Mul(scale, hn::Cos(d, angle)), d, cosine);
    hn::Store(hn::Mul(scale, hn::Sin(d, angle)), d, sine);
    for (int64_t j = 0; j < count; ++j) {
      cosines[i + j] = static_cast<float>(cosine[j]);
      sines[i + j] = static_cast<float>(sine[j]);
    }
  }
}

// A vector has whole pairs, with their cosines and sines twice: y = x cos + (x with each pair exchanged) (-sin, sin).
template <typename In, typename Out>
static void turnInterleaved(In in, Out out, const float *cosines, const float *sines, int64_t pairs) {
  const FloatTag d;
  for (int64_t i = 0; i < pairs; i += lanes / 2) {
    const int64_t n = 2 * std::min<int64_t>(lanes / 2, pairs - i);
    HWY_ALIGN float cosine[lanes] = {}, sine[lanes] = {};
    for (int64_t j = 0; j < n / 2; ++j) {
      cosine[2 * j] = cosine[2 * j + 1] = cosines[i + j];
      sine[2 * j] = -sines[i + j], sine[2 * j + 1] = sines[i + j];
    }
    const FloatVector x = loadSome(in + 2 * i, n);
    const FloatVector turned = hn::Mul(hn::Shuffle2301(x), hn::Load(d, sine));
    storeSome(hn::MulAdd(x, hn::Load(d, cosine), turned), out + 2 * i, n);
  }
}

void Rope(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  const Attributes &attributes = call.attributes;
  int64_t half = attributes.frequencyCount;
  parallelRows(
      context, x.rows, x.columns, [](float *) {},
      [&](int64_t row, float *cosines) HWY_ATTR {
        float *sines = cosines + half;
        auto position = static_cast<float>(placeOf(x, row, context).position - startOf(operandOf(call, 1), row));
        prepareAngles(attributes, attributes.inverse ? -position : position, cosines, sines);
        auto turn = [&](auto in, auto out) HWY_ATTR {
          for (int64_t head = 0; head < x.columns; head += attributes.headDim)
            for (int64_t i = 0; i < half; i += lanes) {
              int64_t n = half - i;
              FloatVector first = loadSome(in + head + i, n), second = loadSome(in + head + half + i, n);
              FloatVector cosine = loadSome(cosines + i, n), sine = loadSome(sines + i, n);
              storeSome(hn::NegMulAdd(second, sine, hn::Mul(first, cosine)), out + head + i, n);
              storeSome(hn::MulAdd(first, sine, hn::Mul(second, cosine)), out + head + half + i, n);
            }
        };
        auto turnPairs = [&](auto in, auto out) HWY_ATTR {
          for (int64_t head = 0; head < x.columns; head += attributes.headDim)
            turnInterleaved(in + head, out + head, cosines, sines, half);
        };
        if (attributes.interleaved)
          withRows(turnPairs, rowOf(x, row), rowOf(y, row));
        else
          withRows(turn, rowOf(x, row), rowOf(y, row));
        int64_t rest = attributes.headDim - 2 * half;
        for (int64_t column = 2 * half; rest > 0 && column < x.columns; column += attributes.headDim)
          copyRow(rowOf(x, row) + column, rowOf(y, row) + column, rest);
      });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Rope);

constexpr NamedKernel entries[] = {{"rope", MEBP_BEST(Rope)}};
constexpr KernelTable ropeKernels = entries;

} // namespace mebp::cpu::vector
#endif
