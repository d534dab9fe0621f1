// SPDX-License-Identifier: Apache-2.0
//
// x, y, dy, dx [N,F]; w, b [1,G]. Each group of G columns is normalised by itself. Each task expands the weights into
// its workspace first, a bias behind them.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/norm.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// weights[i] = offset + w[i].
static void prepareWeights(const Tensor &w, float offset, float *weights) {
  dequantizeRow(w, 0, weights);
  if (offset != 0)
    mapRow(weights, w.columns,
           [&](int64_t i, int64_t n) HWY_ATTR { return hn::Add(hn::Set(FloatTag(), offset), loadSome(weights + i, n)); });
}

// One group at a time: body(row, first column, weights). `prepare(weights)` may do more than prepareWeights.
template <typename Prepare, typename Body>
static void forEachGroup(const Call &call, const Context &context, const Prepare &prepare, const Body &body) {
  const Tensor &x = call.operands[0], &w = call.operands[1];
  parallelRows(
      context, x.rows, x.columns,
      [&](float *weights) HWY_ATTR {
        prepareWeights(w, call.attributes.weightOffset, weights);
        prepare(weights);
      },
      [&](int64_t row, const float *weights) HWY_ATTR {
        for (int64_t column = 0; column < x.columns; column += w.columns)
          body(row, column, weights);
      });
}
template <typename Body> static void forEachGroup(const Call &call, const Context &context, const Body &body) {
  forEachGroup(call, context, [](float *) {}, body);
}

static float inverseOf(float sumOfSquares, int64_t size, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(sumOfSquares) / size + epsilon));
}

void RmsNorm(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  int64_t size = call.operands[1].columns;
  forEachGroup(call, context, [&](int64_t row, int64_t column, const float *weights) HWY_ATTR {
    auto body = [&](auto in, auto out) HWY_ATTR {
      const FloatVector inverse = hn::Set(FloatTag(), inverseOf(dotRow(in, in, size), size, call.attributes.epsilon));
      mapRow(out, size, [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::Mul(hn::Mul(loadSome(in + i, n), inverse), loadSome(weights + i, n));
      });
    };
    withRows(body, rowOf(x, row) + column, rowOf(y, row) + column);
  });
}

void RmsNormInputGradient(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &x = call.operands[0], &dy = call.operands[2], &dx = call.results[0];
  int64_t size = call.operands[1].columns;
  forEachGroup(call, context, [&](int64_t row, int64_t column, const float *weights) HWY_ATTR {
    auto body = [&](auto in, auto upstream, auto out) HWY_ATTR {
      float inverse = inverseOf(dotRow(in, in, size), size, call.attributes.epsilon);
      auto scaled = [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::Mul(loadSome(upstream + i, n), loadSome(weights + i, n));
      };
      float product =
          sumRow(size, [&](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(scaled(i, n), loadSome(in + i, n)); });
      // dx = inverse u - (inverse^3 mean(u x)) x
      const FloatVector factor = hn::Set(d, inverse), shift = hn::Set(d, -inverse * inverse * inverse * product / size);
      mapRow(out, size, [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::MulAdd(scaled(i, n), factor, hn::Mul(shift, loadSome(in + i, n)));
      });
    };
    withRows(body, rowOf(x, row) + column, rowOf(dy, row) + column, rowOf(dx, row) + column);
  });
}

struct Moments {
  float mean;
  float inverse; // 1 / deviation
};

template <typename X> static Moments momentsOf(X x, int64_t size, float epsilon) {
  const FloatTag d;
  float mean = sumRow(size, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(x + i, n); }) / size;
  float squares = sumRow(size, [&](int64_t i, int64_t n) HWY_ATTR {
    FloatVector difference = hn::Sub(loadSome(x + i, n), hn::Set(d, mean));
    if (n < lanes) // the padding must stay zero
      difference = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n)), difference);
    return hn::Mul(difference, difference);
  });
  return {mean, inverseOf(squares, size, epsilon)};
}

void LayerNorm(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &x = call.operands[0], &w = call.operands[1], &b = operandOf(call, 2), &y = call.results[0];
  const int64_t size = w.columns;
  auto prepareBias = [&](float *weights) HWY_ATTR {
    if (b.present())
      dequantizeRow(b, 0, weights + size);
    else
      std::fill_n(weights + size, size, 0.0f);
  };
  forEachGroup(call, context, prepareBias, [&](int64_t row, int64_t column, const float *weights) HWY_ATTR {
    auto body = [&](auto in, auto out) HWY_ATTR {
      const float *bias = weights + size;
      Moments moments = momentsOf(in, size, call.attributes.epsilon);
      mapRow(out, size, [&](int64_t i, int64_t n) HWY_ATTR {
        FloatVector normal =
            hn::Mul(hn::Sub(loadSome(in + i, n), hn::Set(d, moments.mean)), hn::Set(d, moments.inverse));
        return hn::MulAdd(normal, loadSome(weights + i, n), loadSome(bias + i, n));
      });
    };
    withRows(body, rowOf(x, row) + column, rowOf(y, row) + column);
  });
}

void LayerNormInputGradient(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &x = call.operands[0], &dy = call.operands[2], &dx = call.results[0];
  const int64_t size = call.operands[1].columns;
  forEachGroup(call, context, [&](int64_t row, int64_t column, const float *weights) HWY_ATTR {
    auto body = [&](auto in, auto upstream, auto out) HWY_ATTR {
      Moments moments = momentsOf(in, size, call.attributes.epsilon);
      auto scaled = [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::Mul(loadSome(upstream + i, n), loadSome(weights + i, n));
      };
      auto normal = [&](int64_t i, int64_t n) HWY_ATTR {
        return hn::Mul(hn::Sub(loadSome(in + i, n), hn::Set(d, moments.mean)), hn::Set(d, moments.inverse));
      };
      const FloatVector mean = hn::Set(d, sumRow(size, scaled) / size);
      const FloatVector product = hn::Set(
          d, sumRow(size, [&](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(scaled(i, n), normal(i, n)); }) / size);
      mapRow(out, size, [&](int64_t i, int64_t n) HWY_ATTR {
        FloatVector centred = hn::MulSub(loadSome(upstream + i, n), loadSome(weights + i, n), mean);
        return hn::Mul(hn::NegMulAdd(normal(i, n), product, centred), hn::Set(d, moments.inverse));
      });
    };
    withRows(body, rowOf(x, row) + column, rowOf(dy, row) + column, rowOf(dx, row) + column);
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(RmsNorm);
HWY_EXPORT(RmsNormInputGradient);
HWY_EXPORT(LayerNorm);
HWY_EXPORT(LayerNormInputGradient);

constexpr NamedKernel entries[] = {{"rms_norm", MEBP_BEST(RmsNorm)},
                                   {"rms_norm_input_gradient", MEBP_BEST(RmsNormInputGradient)},
                                   {"layer_norm", MEBP_BEST(LayerNorm)},
                                   {"layer_norm_input_gradient", MEBP_BEST(LayerNormInputGradient)}};
constexpr KernelTable normKernels = entries;

} // namespace mebp::cpu::vector
#endif
