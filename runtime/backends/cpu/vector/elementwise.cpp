// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y, dx [N,F]; split and concat cut and join columns; dy of what repeats x [N,G], G a multiple of F.
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
    const FloatVector alpha = hn::Set(d, call.attributes.alpha), shift = hn::Set(d, call.attributes.shift);
    auto body = [&](auto from, auto to) HWY_ATTR {
      mapRow(to, y.columns,
             [&](int64_t i, int64_t n) HWY_ATTR { return hn::MulAdd(alpha, loadSome(from + i, n), shift); });
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

// Every second number, and the others.
template <typename T> static void takePairsApart(const T *pairs, T *first, T *second, int64_t count) {
  const LaneTag<T> d;
  int64_t i = 0;
  for (LaneVector<T> a, b; i + lanes <= count; i += lanes) {
    hn::LoadInterleaved2(d, pairs + 2 * i, a, b);
    hn::StoreU(a, d, first + i);
    hn::StoreU(b, d, second + i);
  }
  for (; i < count; ++i)
    first[i] = pairs[2 * i], second[i] = pairs[2 * i + 1];
}
template <typename T> static void makePairs(const T *first, const T *second, T *pairs, int64_t count) {
  const LaneTag<T> d;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreInterleaved2(hn::LoadU(d, first + i), hn::LoadU(d, second + i), d, pairs + 2 * i);
  for (; i < count; ++i)
    pairs[2 * i] = first[i], pairs[2 * i + 1] = second[i];
}

// Whether the two parts have one column each of every group: as some models have gates beside what they multiply.
static bool arePairs(const Tensor &whole, const Tensor *parts, size_t count, int64_t groups) {
  auto isOne = [&](const Tensor &part) { return part.columns == groups && part.storage == whole.storage; };
  return count == 2 && isOne(parts[0]) && isOne(parts[1]);
}

// Calls copy(part's row, whole's row, columns) for each part of each group of a row.
template <typename Copy>
static void forEachPart(const Tensor &whole, const Tensor *parts, size_t count, int64_t groups, int64_t row,
                        const Copy &copy) {
  const int64_t group = whole.columns / groups;
  int64_t column = 0;
  for (size_t part = 0; part < count; ++part) {
    const int64_t size = parts[part].columns / groups;
    for (int64_t g = 0; g < groups; ++g)
      copy(rowOf(parts[part], row) + g * size, rowOf(whole, row) + (g * group + column), size);
    column += size;
  }
}

void Split(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0];
  const int64_t groups = call.attributes.groups;
  const bool pairs = arePairs(x, call.results, call.resultCount, groups);
  parallelRows(context, x.rows, x.columns, [&](int64_t row) HWY_ATTR {
    if (!pairs)
      return forEachPart(x, call.results, call.resultCount, groups, row,
                         [](Row part, Row whole, int64_t size) { copyRow(whole, part, size); });
    const Row from = rowOf(x, row), first = rowOf(call.results[0], row), second = rowOf(call.results[1], row);
    if (from.isBf16())
      takePairsApart(from.halves(), first.halves(), second.halves(), groups);
    else
      takePairsApart(from.floats(), first.floats(), second.floats(), groups);
  });
}

void Concat(const Call &call, const Context &context) {
  const Tensor &y = call.results[0];
  const int64_t groups = call.attributes.groups;
  const bool pairs = arePairs(y, call.operands, call.operandCount, groups);
  parallelRows(context, y.rows, y.columns, [&](int64_t row) HWY_ATTR {
    if (!pairs)
      return forEachPart(y, call.operands, call.operandCount, groups, row,
                         [](Row part, Row whole, int64_t size) { copyRow(part, whole, size); });
    const Row to = rowOf(y, row), first = rowOf(call.operands[0], row), second = rowOf(call.operands[1], row);
    if (to.isBf16())
      makePairs(first.halves(), second.halves(), to.halves(), groups);
    else
      makePairs(first.floats(), second.floats(), to.floats(), groups);
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Add);
HWY_EXPORT(Multiply);
HWY_EXPORT(Scale);
HWY_EXPORT(Split);
HWY_EXPORT(Concat);
HWY_EXPORT(RepeatGradient);

constexpr KernelTable elementwiseKernels = {
    {"add", MEBP_BEST(Add)},     {"multiply", MEBP_BEST(Multiply)}, {"scale", MEBP_BEST(Scale)},
    {"split", MEBP_BEST(Split)}, {"concat", MEBP_BEST(Concat)},     {"repeat_gradient", MEBP_BEST(RepeatGradient)}};

} // namespace mebp::cpu::vector
#endif
