// SPDX-License-Identifier: Apache-2.0
//
// logits, p [N,C]: the vocabulary rows [c0, c0 + C); labels, max, sum, target [N,1]; accumulator, dx [N,D]; w [V,D].
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/loss.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

static float maximumOf(const float *values, int64_t count) {
  const FloatTag d;
  float maximum = values[0];
  int64_t i = 0;
  if (count >= lanes) {
    FloatVector best = hn::LoadU(d, values);
    for (i = lanes; i + lanes <= count; i += lanes)
      best = hn::Max(best, hn::LoadU(d, values + i));
    maximum = hn::GetLane(hn::MaxOfLanes(d, best));
  }
  for (; i < count; ++i)
    maximum = std::max(maximum, values[i]);
  return maximum;
}

void CrossEntropyTile(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &logits = call.operands[0], &labels = call.operands[1], &p = call.results[0];
  const Tensor &max = call.results[1], &sum = call.results[2], &target = call.results[3];
  const Tensor &accumulator = resultOf(call, 4);
  parallelRows(context, logits.rows, logits.columns, [&](int64_t row) HWY_ATTR {
    const float *in = floatRowOf(logits, row);
    float *out = floatRowOf(p, row);
    int64_t label = labelOf(labels, row) - logits.firstColumn, columns = logits.columns;
    bool hit = label >= 0 && label < columns;
    float before = *floatRowOf(max, row), maximum = std::max(before, maximumOf(in, columns));
    auto correction = static_cast<float>(std::exp(static_cast<double>(before) - maximum));
    if (hit)
      *floatRowOf(target, row) = in[label];
    mapRow(out, columns, [&](int64_t i, int64_t n) HWY_ATTR {
      return exponentialOf(hn::Sub(loadSome(in + i, n), hn::Set(d, maximum)));
    });
    if (hit)
      out[label] = 0;
    float total = sumRow(columns, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(out + i, n); });
    float *scaled = accumulator.present() && correction != 1.0f ? floatRowOf(accumulator, row) : nullptr;
    if (scaled)
      mapRow(scaled, accumulator.columns,
             [&](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(hn::Set(d, correction), loadSome(scaled + i, n)); });
    *floatRowOf(max, row) = maximum;
    *floatRowOf(sum, row) = correction * *floatRowOf(sum, row) + total;
  });
}

// dx of one row: factor accumulator - (factor sum) w[label].
static void finishRow(const float *accumulator, const float *weights, float factor, float sum, float *out,
                      int64_t columns) {
  const FloatTag d;
  const FloatVector outer = hn::Set(d, factor), inner = hn::Set(d, sum);
  mapRow(out, columns, [&](int64_t i, int64_t n) HWY_ATTR {
    return hn::Mul(outer, hn::NegMulAdd(inner, loadSome(weights + i, n), loadSome(accumulator + i, n)));
  });
}

void CrossEntropy(const Call &call, const Context &context) {
  const Tensor &labels = call.operands[0], &max = call.operands[1], &sum = call.operands[2];
  const Tensor &target = call.operands[3], &accumulator = operandOf(call, 6), &w = operandOf(call, 7);
  const Tensor &loss = call.results[0], &dx = resultOf(call, 1);
  float scale = *call.operands[4].f32();
  auto partition = [&](int64_t row) {
    return *floatRowOf(sum, row) + std::exp(static_cast<double>(*floatRowOf(target, row)) - *floatRowOf(max, row));
  };
  double total = 0; // in the order of the rows, by one thread
  for (int64_t row = 0; row < labels.rows; ++row)
    if (labelOf(labels, row) >= 0)
      total += std::log(partition(row)) + *floatRowOf(max, row) - *floatRowOf(target, row);
  *loss.f32() += static_cast<float>(scale * total);
  if (!dx.present())
    return;
  parallelRows(
      context, dx.rows, dx.columns, [](float *) {},
      [&](int64_t row, float *weights) HWY_ATTR {
        int32_t label = labelOf(labels, row);
        if (label < 0) {
          std::fill_n(floatRowOf(dx, row), dx.columns, 0.0f);
          return;
        }
        dequantizeRow(w, label, weights);
        finishRow(floatRowOf(accumulator, row), weights, static_cast<float>(scale / partition(row)),
                  *floatRowOf(sum, row), floatRowOf(dx, row), dx.columns);
      });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(CrossEntropyTile);
HWY_EXPORT(CrossEntropy);

const KernelTable lossKernels = {{"cross_entropy_tile", MEBP_BEST(CrossEntropyTile)},
                                 {"cross_entropy", MEBP_BEST(CrossEntropy)}};

} // namespace mebp::cpu::vector
#endif
