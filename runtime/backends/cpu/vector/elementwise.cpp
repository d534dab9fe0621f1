// SPDX-License-Identifier: Apache-2.0
//
// a, b, x, y, dx [N,F]; split and concat cut and join columns; dy of what repeats x [N,G], G a multiple of F.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

void Add(const Call &call, const Context &context) {
  combineElements(call, context, [](FloatVector a, FloatVector b) HWY_ATTR { return hn::Add(a, b); });
}

void Multiply(const Call &call, const Context &context) {
  combineElements(call, context, [](FloatVector a, FloatVector b) HWY_ATTR { return hn::Mul(a, b); });
}

void Scale(const Call &call, const Context &context) {
  const FloatTag d;
  mapElements(call, context, [&](FloatVector x) HWY_ATTR {
    return hn::MulAdd(hn::Set(d, call.attributes.alpha), x, hn::Set(d, call.attributes.shift));
  });
}

// format::randomBits of one index after the other, two floats' lanes each.
static HWY_INLINE LaneVector<uint32_t> drawBits(uint64_t seed, uint64_t stream, uint64_t index) {
  const hn::Repartition<uint64_t, FloatTag> d;
  constexpr uint64_t step = 0x9E3779B97F4A7C15ull;
  const uint64_t begin = (seed * step ^ (stream + 1) * 0xD1B54A32D192ED03ull) + (index + 1) * step;
  auto state = hn::Add(hn::Set(d, begin), hn::Mul(hn::Iota(d, 0), hn::Set(d, step)));
  state = hn::Mul(hn::Xor(state, hn::ShiftRight<30>(state)), hn::Set(d, 0xBF58476D1CE4E5B9ull));
  state = hn::Mul(hn::Xor(state, hn::ShiftRight<27>(state)), hn::Set(d, 0x94D049BB133111EBull));
  return hn::BitCast(LaneTag<uint32_t>(), hn::Xor(state, hn::ShiftRight<31>(state)));
}

void Dropout(const Call &call, const Context &context) {
  const FloatTag d;
  const Tensor &x = call.operands[0], &y = call.results[0];
  const uint32_t threshold = dropoutThreshold(call.attributes.p);
  const float scale = dropoutScale(call.attributes.p);
  parallelRows(context, y.rows, y.columns, [&](int64_t row) HWY_ATTR {
    if (!context.dropout.isOn)
      return copyRow(rowOf(x, row), rowOf(y, row), y.columns);
    const Place place = placeOf(x, row, context);
    const DropoutRow drawn(context.dropout, call.attributes.salt, place.item, place.position);
    auto body = [&](auto from, auto to) HWY_ATTR {
      mapRow(to, y.columns, [&](int64_t i, int64_t n) HWY_ATTR {
        const auto bits = drawBits(drawn.key, drawn.position, static_cast<uint64_t>(i / 2));
        const auto isZeroed = hn::RebindMask(d, hn::Lt(bits, hn::Set(LaneTag<uint32_t>(), threshold)));
        return hn::Mul(loadSome(from + i, n), hn::IfThenZeroElse(isZeroed, hn::Set(d, scale)));
      });
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

// For each row, copy as in forEachPart or, of parts that are pairs, movePairs(whole, first part, second part, groups).
template <typename Copy, typename MovePairs>
static void forEachRow(const Call &call, const Context &context, const Tensor &whole, const Tensor *parts, size_t count,
                       const Copy &copy, const MovePairs &movePairs) {
  const int64_t groups = call.attributes.groups;
  const bool pairs = arePairs(whole, parts, count, groups);
  parallelRows(context, whole.rows, whole.columns, [&](int64_t row) HWY_ATTR {
    if (!pairs)
      return forEachPart(whole, parts, count, groups, row, copy);
    const Row all = rowOf(whole, row), first = rowOf(parts[0], row), second = rowOf(parts[1], row);
    if (all.isBf16())
      movePairs(all.halves(), first.halves(), second.halves(), groups);
    else
      movePairs(all.floats(), first.floats(), second.floats(), groups);
  });
}

void Split(const Call &call, const Context &context) {
  forEachRow(
      call, context, call.operands[0], call.results, call.resultCount,
      [](Row part, Row whole, int64_t size) { copyRow(whole, part, size); },
      [](auto *pairs, auto *first, auto *second, int64_t count) HWY_ATTR {
        takePairsApart(pairs, first, second, count);
      });
}

void Concat(const Call &call, const Context &context) {
  forEachRow(
      call, context, call.results[0], call.operands, call.operandCount,
      [](Row part, Row whole, int64_t size) { copyRow(part, whole, size); },
      [](auto *pairs, auto *first, auto *second, int64_t count) HWY_ATTR { makePairs(first, second, pairs, count); });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Add);
HWY_EXPORT(Multiply);
HWY_EXPORT(Scale);
HWY_EXPORT(Dropout);
HWY_EXPORT(Split);
HWY_EXPORT(Concat);
HWY_EXPORT(RepeatGradient);

constexpr NamedKernel entries[] = {{"add", MEBP_BEST(Add)},        {"multiply", MEBP_BEST(Multiply)},
                                   {"scale", MEBP_BEST(Scale)},    {"split", MEBP_BEST(Split)},
                                   {"concat", MEBP_BEST(Concat)},  {"repeat_gradient", MEBP_BEST(RepeatGradient)},
                                   {"dropout", MEBP_BEST(Dropout)}};
constexpr KernelTable elementwiseKernels = entries;

} // namespace mebp::cpu::vector
#endif
