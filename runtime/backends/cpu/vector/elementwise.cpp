// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y, dx [N,F]; dy of what repeats x [N,G], G a multiple of F.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

template <typename Combine> static void combine(const Call &call, const Context &context, const Combine &combine) {
  const Tensor &a = call.operands[0], &b = call.operands[1], &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) HWY_ATTR {
    auto body = [&](auto first, auto second, auto to) HWY_ATTR {
      mapRow(to, y.columns,
             [&](int64_t i, int64_t n) HWY_ATTR { return combine(loadSome(first + i, n), loadSome(second + i, n)); });
    };
    withRows(body, rowOf(a, row), rowOf(b, row), rowOf(y, row));
  });
}

void Add(const Call &call, const Context &context) {
  combine(call, context, [](FloatVector a, FloatVector b) HWY_ATTR { return hn::Add(a, b); });
}

void Multiply(const Call &call, const Context &context) {
  combine(call, context, [](FloatVector a, FloatVector b) HWY_ATTR { return hn::Mul(a, b); });
}

void Scale(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &x = call.operands[0], &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) HWY_ATTR {
    const FloatVector alpha = hn::Set(d, call.attributes.alpha);
    auto body = [&](auto from, auto to) HWY_ATTR {
      mapRow(to, y.columns, [&](int64_t i, int64_t n) HWY_ATTR { return hn::Mul(alpha, loadSome(from + i, n)); });
    };
    withRows(body, rowOf(x, row), rowOf(y, row));
  });
}

void RepeatGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &dx = call.results[0];
  parallelRows(context, dx.rows, dy.columns, [&](int64_t row) HWY_ATTR {
    auto body = [&](auto from, auto to) HWY_ATTR {
      mapRow(to, dx.columns, [&](int64_t i, int64_t n) HWY_ATTR {
        FloatVector sum = loadSome(from + i, n);
        for (int64_t column = i + dx.columns; column < dy.columns; column += dx.columns)
          sum = hn::Add(sum, loadSome(from + column, n));
        return sum;
      });
    };
    withRows(body, rowOf(dy, row), rowOf(dx, row));
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Add);
HWY_EXPORT(Multiply);
HWY_EXPORT(Scale);
HWY_EXPORT(RepeatGradient);

constexpr KernelTable elementwiseKernels = {{"add", MEBP_BEST(Add)},
                                            {"multiply", MEBP_BEST(Multiply)},
                                            {"scale", MEBP_BEST(Scale)},
                                            {"repeat_gradient", MEBP_BEST(RepeatGradient)}};

} // namespace mebp::cpu::vector
#endif
