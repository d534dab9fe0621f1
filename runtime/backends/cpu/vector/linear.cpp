// SPDX-License-Identifier: Apache-2.0
//
// x, dx [N,K], w, dw [M,K], y, dy [N,M]: all three products by panels, but those of few rows or columns.
#include "runtime/backends/cpu/kernel/operands.h"
#include "runtime/backends/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/backends/cpu/vector/linear.cpp"
#include <hwy/foreach_target.h>

#include "runtime/backends/cpu/vector/narrow-inl.h"
#include "runtime/backends/cpu/vector/narrow_gradient-inl.h"
#include "runtime/backends/cpu/vector/thin-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mebp::cpu::HWY_NAMESPACE {

// out = bias + addend + alpha * product, those that are present. Blocks of the product are summed elsewhere until the
// last: an addend is often a residual stream, beside which each rounding would be large, and out may be BF16.
struct Accumulate {
  const Tensor &out, &addend;
  const float *bias; // of the task's first column; may be null
  float alpha;

  void operator()(const Products &products) const { products.last ? finish(products) : keep(products); }

private:
  static void keep(const Products &products) {
    const FloatTag d;
    for (int64_t i = 0; i < products.rows * panelWidth; i += lanes) {
      FloatVector sum = hn::LoadU(d, products.tile + i);
      hn::StoreU(products.first ? sum : hn::Add(hn::LoadU(d, products.sums + i), sum), d, products.sums + i);
    }
  }
  void finish(const Products &products) const {
    const FloatTag d;
    const FloatVector factor = hn::Set(d, alpha);
    const bool adds = addend.present();
    Row to = rowOf(out, products.row) + products.column;
    Row from = adds ? rowOf(addend, products.row) + products.column : to;
    auto body = [&](auto before, auto after) HWY_ATTR {
      for (int64_t r = 0; r < products.rows; ++r)
        mapRow(after + r * out.stride, products.columns, [&](int64_t c, int64_t n) HWY_ATTR {
          FloatVector sum = hn::LoadU(d, products.tile + r * panelWidth + c);
          if (!products.first)
            sum = hn::Add(hn::LoadU(d, products.sums + r * panelWidth + c), sum);
          FloatVector initial = adds ? loadSome(before + r * addend.stride + c, n) : hn::Zero(d);
          if (bias)
            initial = hn::Add(initial, loadSome(bias + c, n));
          return hn::MulAdd(factor, sum, initial);
        });
    };
    withRows(body, from, to);
  }
};

// Where no factor needs more than bf16, they are multiplied in it if this CPU is faster so.
static const Bf16Products *productsFor(const Tensor &left, const Tensor &w, bool narrow, const Context &context) {
  return (left.storage == Storage::BF16 || narrow) && w.storage != Storage::F32 ? context.bf16 : nullptr;
}

void Linear(const Call &call, const Context &context) {
  const Tensor &x = call.operands[0], &w = call.operands[1], &bias = operandOf(call, 2);
  const Tensor &addend = operandOf(call, 3), &y = call.results[0];
  const LowRank low(operandOf(call, 4), operandOf(call, 5), true, call.attributes.lowAlpha);
  auto finish = [&](const Products &products) HWY_ATTR {
    HWY_ALIGN float piece[panelWidth];
    if (bias.present())
      expandPanel(bias, 0, 1, products.column, piece);
    Accumulate{y, addend, bias.present() ? piece : nullptr, call.attributes.alpha}(products);
  };
  const Bf16Products *products = productsFor(x, w, false, context);
  if (context.isDecoding && multiplyThin(context, products, x, w, low, finish))
    return;
  if (products)
    return multiplyPanels(context, x.rows, Bf16Factors(*products, x), RightMatrix{w, true}, low, finish);
  if (w.rows <= narrowColumns && isPlain(w) && !low.present())
    return multiplyNarrow(
        context, x, w.rows,
        [&](int64_t k, int64_t count, float *out) HWY_ATTR {
          for (int64_t r = 0; r < w.rows; ++r)
            copyColumns(w, r, k, count, out + r * narrowDepth);
        },
        finish);
  multiplyPanels(context, x.rows, FloatFactors{{x}}, RightMatrix{w, true}, low, finish);
}

void LinearInputGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &w = call.operands[1];
  const LowRank low(operandOf(call, 3), operandOf(call, 4), false, call.attributes.lowAlpha);
  Accumulate finish{call.results[0], operandOf(call, 2), nullptr, call.attributes.alpha};
  if (const Bf16Products *products = productsFor(dy, w, call.attributes.narrow, context))
    return multiplyPanels(context, dy.rows, Bf16Factors(*products, dy), RightMatrix{w, false}, low, finish);
  if (w.columns <= narrowColumns && isPlain(w) && !low.present())
    return multiplyNarrow(
        context, dy, w.columns,
        [&](int64_t k, int64_t count, float *out) HWY_ATTR {
          HWY_ALIGN float panel[panelWidth * panelWidth];
          for (int64_t d = 0; d < count; d += panelWidth) {
            expandTransposed(w, k + d, 0, w.columns, panel);
            for (int64_t c = 0; c < w.columns; ++c)
              std::copy_n(panel + c * panelWidth, std::min(panelWidth, count - d), out + c * narrowDepth + d);
          }
        },
        finish);
  multiplyPanels(context, dy.rows, FloatFactors{{dy}}, RightMatrix{w, false}, low, finish);
}

// The wider side of dw lies along the panels: dw = alpha dy^T x, or its transpose x^T dy.
void LinearWeightGradient(const Call &call, const Context &context) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &dw = call.results[0];
  bool transposed = dw.rows > dw.columns;
  const Tensor &narrow = transposed ? x : dy, &wide = transposed ? dy : x;
  bool accumulates = operandOf(call, 2).present();
  float alpha = call.attributes.alpha;
  auto scatter = [&](const Products &products) HWY_ATTR {
    for (int64_t c = 0; c < products.columns; ++c)
      for (int64_t r = 0; r < products.rows; ++r) {
        float *to = floatRowOf(dw, products.column + c) + products.row + r;
        *to = (products.first && !accumulates ? 0.0f : *to) + alpha * products.tile[r * panelWidth + c];
      }
  };
  auto multiply = [&](const auto &finish) HWY_ATTR {
    if (narrow.columns <= maximumLowRank)
      return multiplyNarrowGradient(context, narrow, wide, finish);
    multiplyPanels(context, narrow.columns, FloatFactors{{narrow, true}}, RightMatrix{wide, false}, LowRank(), finish);
  };
  if (transposed)
    multiply(scatter);
  else
    multiply(Accumulate{dw, accumulates ? dw : operandOf(call, 2), nullptr, alpha});
}

} // namespace mebp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mebp::cpu::vector {
HWY_EXPORT(Linear);
HWY_EXPORT(LinearInputGradient);
HWY_EXPORT(LinearWeightGradient);

constexpr NamedKernel entries[] = {{"linear", MEBP_BEST(Linear)},
                                   {"linear_input_gradient", MEBP_BEST(LinearInputGradient)},
                                   {"linear_weight_gradient", MEBP_BEST(LinearWeightGradient)}};
constexpr KernelTable linearKernels = entries;

} // namespace mebp::cpu::vector
#endif
