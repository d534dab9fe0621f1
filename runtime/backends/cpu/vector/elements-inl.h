// SPDX-License-Identifier: Apache-2.0
//
// Kernels whose result is a formula of one element, or of two in the same place.
#if defined(MEBP_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MEBP_ELEMENTS_INL_H
#undef MEBP_ELEMENTS_INL_H
#else
#define MEBP_ELEMENTS_INL_H
#endif

#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/parallel.h"
#include "runtime/backends/cpu/vector/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// The first result = formula(first operand).
template <typename Formula> inline void mapElements(const Call &call, const Context &context, const Formula &formula) {
  const Tensor &x = call.operands[0], &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) HWY_ATTR {
    auto body = [&](auto from, auto to) HWY_ATTR {
      mapRow(to, y.columns, [&](int64_t i, int64_t n) HWY_ATTR { return formula(loadSome(from + i, n)); });
    };
    withRows(body, rowOf(x, row), rowOf(y, row));
  });
}

// The first result = formula(first operand, second operand).
template <typename Formula>
inline void combineElements(const Call &call, const Context &context, const Formula &formula) {
  const Tensor &a = call.operands[0], &b = call.operands[1], &y = call.results[0];
  parallelRows(context, y.rows, y.columns, [&](int64_t row) HWY_ATTR {
    auto body = [&](auto first, auto second, auto to) HWY_ATTR {
      mapRow(to, y.columns,
             [&](int64_t i, int64_t n) HWY_ATTR { return formula(loadSome(first + i, n), loadSome(second + i, n)); });
    };
    withRows(body, rowOf(a, row), rowOf(b, row), rowOf(y, row));
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
