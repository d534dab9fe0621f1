// SPDX-License-Identifier: Apache-2.0
//
// A convolution over a token and those before it, a channel in each lane: the weight [C,W] is turned once for many
// rows.
#include "runtime/backends/cpu/kernel/convolution.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/convolution.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t taskChannels = 512;

// The weights of some channels as [W, taskChannels], by taps.
static void turn(const Tensor &w, int64_t first, int64_t count, float *taps) {
  for (int64_t j = 0; j < w.columns; ++j)
    for (int64_t c = 0; c < count; ++c)
      taps[j * taskChannels + c] = floatRowOf(w, first + c)[w.columns - 1 - j];
}

// Calls body(first channel, how many, their turned weights) in tasks.
template <typename Body> static void overChannels(const Tensor &w, const Context &context, const Body &body) {
  parallelFor(context, ceilDivide(w.rows, taskChannels), [&](int64_t task, unsigned char *workspace) HWY_ATTR {
    auto *taps = reinterpret_cast<float *>(workspace);
    const int64_t first = task * taskChannels, count = std::min(taskChannels, w.rows - first);
    turn(w, first, count, taps);
    body(first, count, taps);
  });
}

void CausalConv(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &bias = operandOf(call, 2), &y = call.results[0];
  const Convolution convolution(call, context, x, 3, 4, 1);
  overChannels(w, context, [&](int64_t first, int64_t count, float *taps) HWY_ATTR {
    const FloatTag d;
    float *start = taps + w.columns * taskChannels;
    std::fill_n(start, count, 0.0f);
    if (bias.present())
      dequantize(bias, 0, first, count, start);
    for (int64_t n = 0; n < x.rows; ++n) {
      const int64_t most = convolution.readableTapsOf(n), own = convolution.ownTapsOf(n);
      mapRow(rowOf(y, n) + first, count, [&](int64_t i, int64_t some) HWY_ATTR {
        FloatVector sum = loadSome(start + i, some);
        for (int64_t j = 0; j < own; ++j)
          sum = hn::MulAdd(loadSome(rowOf(x, n - j) + first + i, some), hn::LoadU(d, taps + j * taskChannels + i), sum);
        for (int64_t j = own; j < most; ++j)
          sum = hn::MulAdd(loadSome(convolution.keptRow(n, j) + first + i, some),
                           hn::LoadU(d, taps + j * taskChannels + i), sum);
        return sum;
      });
    }
  });
  convolution.leave([&](int64_t row, float *out) { copyRow(rowOf(x, row), Row(out), x.columns); });
}

void CausalConvInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1], &dx = call.results[0];
  const Convolution convolution(call, context, dy, 2, 3, 1);
  // Some channels of row n, which may lie before the call's: what its rows n + j add, and what is owed already.
  auto gather = [&](int64_t n, const float *owed, int64_t first, int64_t count, const float *taps, Row out) HWY_ATTR {
    const auto [from, to] = convolution.readersOf(n);
    mapRow(out + first, count, [&, from = from, to = to](int64_t i, int64_t some) HWY_ATTR {
      FloatVector sum = hn::Zero(FloatTag());
      for (int64_t j = from; j < to; ++j)
        sum =
            hn::MulAdd(loadSome(rowOf(dy, n + j) + first + i, some), loadSome(taps + j * taskChannels + i, some), sum);
      return owed ? hn::Add(sum, loadSome(owed + first + i, some)) : sum;
    });
  };
  overChannels(w, context, [&](int64_t first, int64_t count, float *taps) HWY_ATTR {
    for (int64_t n = 0; n < dy.rows; ++n)
      gather(n, convolution.owedRow(n), first, count, taps, rowOf(dx, n));
  });
  auto *taps = reinterpret_cast<float *>(context.workspace);
  convolution.owe([&](int64_t row, const float *owed, float *out) HWY_ATTR {
    for (int64_t first = 0; first < w.rows; first += taskChannels) {
      const int64_t count = std::min(taskChannels, w.rows - first);
      turn(w, first, count, taps);
      gather(row, owed, first, count, taps, Row(out));
    }
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(CausalConv);
HWY_EXPORT(CausalConvInputGradient);

constexpr NamedKernel entries[] = {{"causal_conv", MEBP_BEST(CausalConv)},
                                   {"causal_conv_input_gradient", MEBP_BEST(CausalConvInputGradient)}};
constexpr KernelTable convolutionKernels = entries;

} // namespace mebp::cpu::vector
#endif
