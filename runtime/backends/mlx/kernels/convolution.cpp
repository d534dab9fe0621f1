// SPDX-License-Identifier: Apache-2.0
//
// x, y, dx, dy [N,C], w, dw [C,W], bias [1,C]; state, owed, next [W-1,C] of one batch item or of each; starts [N,1].
#include "runtime/backends/mlx/kernels.h"
#include "runtime/backends/mlx/kernels/recurrence.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

// Of each item, some rows of [items, rows, C].
static array rowsOfItems(const array &x, int first, int count) {
  return mx::slice(x, {0, first, 0}, {x.shape(0), first + count, x.shape(2)});
}

// What the row j before a row is multiplied with, [1, C].
static array tapOf(const array &w, int j) { return mx::transpose(columnsOf(w, w.shape(1) - 1 - j, 1)); }

static array whereItReads(const array &places, int j, const array &rows) {
  return mx::where(places >= array(j), rows, array(0.0f));
}

static void causalConv(Call &call) {
  const array x = call.numbers(0), w = call.numbers(1);
  const ItemRows own(call);
  const int kept = w.shape(1) - 1, channels = x.shape(1);
  const mx::Shape before = {own.items, kept, channels};
  const array rows = mx::concatenate({call.has(3) ? mx::reshape(call.numbers(3), before) : mx::zeros(before),
                                      mx::reshape(x, {own.items, own.rows, channels})},
                                     1);
  const array places = mx::reshape(positionsInSample(call, x.shape(0), 4), {own.items, own.rows, 1});
  array sum = rowsOfItems(rows, kept, own.rows) * tapOf(w, 0);
  if (call.has(2))
    sum = sum + call.numbers(2);
  for (int j = 1; j <= kept; ++j) {
    const array earlier = rowsOfItems(rows, kept - j, own.rows);
    sum = sum + (call.has(3) || call.has(4) ? whereItReads(places, j, earlier) : earlier) * tapOf(w, j);
  }
  call.give(0, mx::reshape(sum, x.shape()));
  if (!call.wants(1))
    return;
  const array next = mx::reshape(rowsOfItems(rows, own.rows, kept), {-1, channels});
  call.give(1, call.attributes.items > 0 ? next : rowsOf(next, (own.items - 1) * kept, kept));
}

static void causalConvInputGradient(Call &call) {
  const array dy = call.numbers(0), w = call.numbers(1);
  const ItemRows own(call);
  const int kept = w.shape(1) - 1, channels = dy.shape(1), all = own.rows + kept;
  // From the first row on that the call's may read to the last one; at places below 0 there is no row.
  auto widened = [&](const array &x, const array &beside) {
    return mx::pad(mx::reshape(x, {own.items, own.rows, -1}), {1}, {kept}, {kept}, beside);
  };
  const array rows = widened(dy, array(0.0f)), places = widened(positionsInSample(call, dy.shape(0), 3), array(-1));
  array sum = rowsOfItems(rows, 0, all) * tapOf(w, 0);
  for (int j = 1; j <= kept; ++j)
    sum = sum + whereItReads(rowsOfItems(places, j, all), j, rowsOfItems(rows, j, all)) * tapOf(w, j);
  if (call.has(2)) {
    const array owed = mx::expand_dims(carriedFrom(call.numbers(2), own.behind), 0);
    sum = mx::slice_update_add(sum, owed, {0, own.rows, 0}, {1, all, channels});
  }
  call.give(0, mx::reshape(rowsOfItems(sum, kept, own.rows), dy.shape()));
  if (call.wants(1))
    call.give(1, rowsOf(mx::flatten(sum, 0, 1), 0, kept));
}

static void causalConvWeightGradient(Call &call) {
  const array dy = call.numbers(0);
  const int count = dy.shape(0), channels = dy.shape(1), width = call.results[0].columns, kept = width - 1;
  const array x = mx::pad(call.numbers(1), {0}, {kept}, {0}, array(0.0f));
  // x has the step's rows alone, so that an item begins where its first row is.
  const array inStep = mx::remainder(range(call.firstRow, count), array(call.live.sequence));
  const array places = mx::reshape(mx::minimum(positionsInSample(call, count, 3), inStep), {count, 1});
  std::vector<array> columns;
  for (int j = kept; j >= 0; --j) {
    const Start first = call.firstRow + (kept - j);
    const array earlier =
        first.isKnown() ? rowsOf(x, first.number, count) : mx::slice(x, first.node(), {0}, mx::Shape{count, channels});
    columns.push_back(mx::sum(whereItReads(places, j, behind(columns, earlier)) * dy, 0));
  }
  const array dw = mx::stack(columns, 1);
  call.give(0, call.has(2) ? dw + call.numbers(2) : dw);
}

constexpr NamedKernel entries[] = {{"causal_conv", causalConv},
                                   {"causal_conv_input_gradient", causalConvInputGradient},
                                   {"causal_conv_weight_gradient", causalConvWeightGradient}};
constexpr KernelTable convolutionKernels = entries;

} // namespace mebp::mlx
