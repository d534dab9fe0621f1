// SPDX-License-Identifier: Apache-2.0
//
// Which rows a convolution over a token and those before it reads, and what it carries from call to call: the W - 1
// rows before the call's, in order, or what later rows owe to its last W - 1. Rows are counted from the call's first.
#pragma once

#include <algorithm>
#include <utility>

#include "runtime/backends/cpu/kernel/operands.h"

namespace mebp::cpu {

class Convolution {
public:
  // `rows`: the operand that has the call's rows; `state`, `starts` and `next`: which operands and result these are, -1
  // where the call has none.
  Convolution(const Call &call, const Context &context, const Tensor &rows, int state, int starts, int next)
      : context(context), rows(rows), starts(operandOf(call, static_cast<size_t>(starts))),
        state(state < 0 ? Tensor() : operandOf(call, static_cast<size_t>(state))),
        next(next < 0 ? Tensor() : resultOf(call, static_cast<size_t>(next))), items(call.attributes.items),
        width(next < 0 ? call.results[0].columns : call.operands[1].columns) {}

  // How many rows row n reads, its own among them.
  int64_t tapsOf(int64_t n) const {
    return std::min(width, placeOf(rows, n, context).position - startOf(starts, n) + 1);
  }
  // How many of these are the call's; the others lie in the state.
  int64_t ownTapsOf(int64_t n) const { return std::min(tapsOf(n), n - firstOf(n) + 1); }
  // How many of these there are: without a state, none that lie before the call's.
  int64_t readableTapsOf(int64_t n) const { return state.present() ? tapsOf(n) : ownTapsOf(n); }
  // The row j before row n where it lies before the call's rows: in the state. Null where it is one of them.
  const float *keptRow(int64_t n, int64_t j) const {
    const int64_t before = firstOf(n) - (n - j); // how far before its item's first row of the call
    return before > 0 ? stateRow(itemOf(n), width - 1 - before) : nullptr;
  }
  // The first row of the call that is of the same batch item as row n, which may lie before the call's.
  int64_t firstOf(int64_t n) const {
    return n < 0 ? 0 : std::max<int64_t>(0, n - (rows.firstRow + n) % context.sequence);
  }
  // Behind the last one of them.
  int64_t endOf(int64_t n) const {
    const int64_t first = firstOf(n), own = (rows.firstRow + first) % context.sequence;
    return std::min(rows.rows, first + context.sequence - own);
  }
  // Of the call's rows n + j those that read row n, which may lie before the call's: from the first j to before the
  // last one. Samples follow each other, so where one row does not reach back to n, no later one does.
  std::pair<int64_t, int64_t> readersOf(int64_t n) const {
    const int64_t first = std::max<int64_t>(0, firstOf(n) - n), end = std::min(width, endOf(n) - n);
    int64_t last = first;
    while (last < end && last < tapsOf(n + last))
      ++last;
    return {first, last};
  }

  // What rows behind the call's owe to row n; null where they owe it nothing.
  const float *owedRow(int64_t n) const {
    const int64_t end = endOf(n);
    return endsItem(end) || n < end - (width - 1) ? nullptr : stateRow(itemOf(n), n - (end - (width - 1)));
  }

  // Writes what the rows leave for those behind them, by `copy`, which has a row of the call and where it goes.
  template <typename Copy> void leave(const Copy &copy) const {
    for (int64_t first = 0; first < rows.rows; first = endOf(first)) {
      const int64_t end = endOf(first), kept = width - 1, item = itemOf(first);
      for (int64_t r = 0; r < kept; ++r) {
        const int64_t row = end - kept + r;
        float *out = nextRow(item, r);
        if (row >= first)
          copy(row, out);
        else if (const float *older = stateRow(item, kept - (first - row)))
          std::copy(older, older + rows.columns, out); // to where what lay there is read already
        else
          std::fill_n(out, rows.columns, 0.0f);
      }
    }
  }

  // Writes what the rows owe to those before them, from the nearest on: `gather` has the row, what later ones than the
  // call's owe it, and where it goes.
  template <typename Gather> void owe(const Gather &gather) const {
    const int64_t kept = width - 1, end = endOf(0);
    for (int64_t r = kept; r-- > 0;) {
      const bool isPassedOn = !endsItem(end) && r >= end;
      gather(r - kept, isPassedOn ? stateRow(0, r - end) : nullptr, nextRow(0, r));
    }
  }

private:
  int64_t itemOf(int64_t n) const { return items > 0 ? (rows.firstRow + n) / context.sequence : 0; }
  bool endsItem(int64_t end) const { return (rows.firstRow + end) % context.sequence == 0; }
  const float *stateRow(int64_t item, int64_t r) const {
    return state.present() ? floatRowOf(state, item * (width - 1) + r) : nullptr;
  }
  float *nextRow(int64_t item, int64_t r) const { return floatRowOf(next, item * (width - 1) + r); }

  const Context &context;
  const Tensor &rows, &starts;
  const Tensor state, next;
  const int64_t items, width;
};

} // namespace mebp::cpu
