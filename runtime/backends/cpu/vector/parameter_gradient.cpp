// SPDX-License-Identifier: Apache-2.0
//
// Gradients of what is no factor of a product. x, dy [N,F]; dw and its accumulator, which are one: [1,G] of a norm or a
// bias, [V,D] or [P,D] of a table. A task sums some columns over all rows, in their order.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"
#include "runtime/backends/cpu/vector/parallel.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/parameter_gradient.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

constexpr int64_t taskColumns = 64;
constexpr int64_t sumRows = 64; // are summed by themselves first, which rounds less

static void zero(const Tensor &tensor, const Context &context) {
  parallelRows(context, tensor.rows, tensor.columns,
               [&](int64_t row) { std::fill_n(rowOf(tensor, row).floats(), tensor.columns, 0.0f); });
}

// sum[i] += the sum over rows of term(row, i, n), a vector.
template <typename Term>
static void sumColumns(const Context &context, int64_t rows, int64_t columns, float *sum, const Term &term) {
  parallelFor(context, ceilDivide(columns, taskColumns), [&](int64_t task, unsigned char *) HWY_ATTR {
    for (int64_t i = task * taskColumns, end = std::min(columns, i + taskColumns); i < end; i += lanes) {
      int64_t n = std::min(lanes, end - i);
      FloatVector total = loadSome(sum + i, n);
      for (int64_t begin = 0; begin < rows; begin += sumRows) {
        FloatVector some = hn::Zero(FloatTag());
        for (int64_t row = begin; row < std::min(rows, begin + sumRows); ++row)
          some = hn::Add(some, term(row, i, n));
        total = hn::Add(total, some);
      }
      storeSome(total, sum + i, n);
    }
  });
}

// What a group of columns of a row is normalised with; in the first thread's workspace, where all find it.
struct Norm {
  float mean, inverse;
};
constexpr int64_t maximumNorms = static_cast<int64_t>(workspaceBytes / sizeof(Norm));

// `normOf(row of x)` gives the norm of each group as wide as dw.
template <typename NormOf>
static void normWeightGradient(const Call &call, const Context &context, const NormOf &normOf) {
  const Tensor &x = call.operands[0], &dy = call.operands[1], &dw = call.results[0];
  int64_t groups = x.columns / dw.columns, rows = std::max<int64_t>(1, maximumNorms / groups);
  if (!operandOf(call, 2).present())
    zero(dw, context);
  auto *norms = reinterpret_cast<Norm *>(context.workspace);
  for (int64_t first = 0; first < x.rows; first += rows) {
    int64_t count = std::min(rows, x.rows - first);
    parallelRows(context, count, x.columns, [&](int64_t row) HWY_ATTR {
      for (int64_t group = 0; group < groups; ++group)
        norms[row * groups + group] = normOf(rowOf(x, first + row) + group * dw.columns);
    });
    sumColumns(context, count, dw.columns, rowOf(dw, 0).floats(), [&](int64_t row, int64_t i, int64_t n) HWY_ATTR {
      FloatVector sum = hn::Zero(FloatTag());
      for (int64_t group = 0; group < groups; ++group) {
        const Norm norm = norms[row * groups + group];
        int64_t column = group * dw.columns + i;
        FloatVector normal =
            hn::Mul(hn::Sub(loadSome(rowOf(x, first + row) + column, n), hn::Set(FloatTag(), norm.mean)),
                    hn::Set(FloatTag(), norm.inverse));
        sum = hn::MulAdd(loadSome(rowOf(dy, first + row) + column, n), normal, sum);
      }
      return sum;
    });
  }
}

static float inverseOf(double squares, int64_t size, float epsilon) {
  return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(size) + epsilon));
}

void RmsNormWeightGradient(const Call &call, const Context &context) {
  int64_t size = call.results[0].columns;
  normWeightGradient(call, context, [&](Row in) HWY_ATTR {
    return Norm{0.0f, inverseOf(dotRow(in, in, size), size, call.attributes.epsilon)};
  });
}

void LayerNormWeightGradient(const Call &call, const Context &context) {
  int64_t size = call.results[0].columns;
  normWeightGradient(call, context, [&](Row in) HWY_ATTR {
    const FloatTag d;
    float mean = sumRow(size, [&](int64_t i, int64_t n) HWY_ATTR { return loadSome(in + i, n); }) / size;
    float squares = sumRow(size, [&](int64_t i, int64_t n) HWY_ATTR {
      FloatVector difference = hn::Sub(loadSome(in + i, n), hn::Set(d, mean));
      if (n < lanes) // the padding must stay zero
        difference = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n)), difference);
      return hn::Mul(difference, difference);
    });
    return Norm{mean, inverseOf(squares, size, call.attributes.epsilon)};
  });
}

void BiasGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &db = call.results[0];
  if (!operandOf(call, 1).present())
    zero(db, context);
  sumColumns(context, dy.rows, dy.columns, rowOf(db, 0).floats(),
             [&](int64_t row, int64_t i, int64_t n) HWY_ATTR { return loadSome(rowOf(dy, row) + i, n); });
}

// Row `row` of dy is added to row target(row) of dw.
template <typename Target>
static void scatterRows(const Tensor &dy, const Tensor &dw, const Context &context, const Target &target) {
  parallelFor(context, ceilDivide(dy.columns, taskColumns), [&](int64_t task, unsigned char *) HWY_ATTR {
    int64_t first = task * taskColumns, count = std::min(taskColumns, dy.columns - first);
    for (int64_t row = 0; row < dy.rows; ++row) {
      const Row from = rowOf(dy, row) + first;
      float *sum = rowOf(dw, target(row)).floats() + first;
      mapRow(sum, count,
             [&](int64_t i, int64_t n) HWY_ATTR { return hn::Add(loadSome(sum + i, n), loadSome(from + i, n)); });
    }
  });
}

void EmbeddingWeightGradient(const Call &call, const Context &context) {
  const Tensor &ids = call.operands[0], &dy = call.operands[1], &dw = call.results[0];
  if (!operandOf(call, 2).present())
    zero(dw, context);
  scatterRows(dy, dw, context, [&](int64_t row) { return labelOf(ids, row); });
}

void PositionEmbeddingWeightGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &dw = call.results[0];
  if (!operandOf(call, 1).present())
    zero(dw, context);
  scatterRows(dy, dw, context, [&](int64_t row) {
    return placeOf(dy, row, context).position - startOf(operandOf(call, 2), row) + call.attributes.offset;
  });
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(RmsNormWeightGradient);
HWY_EXPORT(LayerNormWeightGradient);
HWY_EXPORT(BiasGradient);
HWY_EXPORT(EmbeddingWeightGradient);
HWY_EXPORT(PositionEmbeddingWeightGradient);

constexpr NamedKernel entries[] = {{"rms_norm_weight_gradient", MEBP_BEST(RmsNormWeightGradient)},
                                   {"layer_norm_weight_gradient", MEBP_BEST(LayerNormWeightGradient)},
                                   {"bias_gradient", MEBP_BEST(BiasGradient)},
                                   {"embedding_weight_gradient", MEBP_BEST(EmbeddingWeightGradient)},
                                   {"position_embedding_weight_gradient", MEBP_BEST(PositionEmbeddingWeightGradient)}};
constexpr KernelTable parameterGradientKernels = entries;

} // namespace mebp::cpu::vector
#endif
