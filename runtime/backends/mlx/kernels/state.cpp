// SPDX-License-Identifier: Apache-2.0
//
// state, k, v [B*C,U]: of each item C rows, position p in row p mod C; rows [N,U], q [N,H*d], o [N,H*e], lse [N,H] of a
// step.
#include "runtime/backends/mlx/kernels.h"
#include "runtime/backends/mlx/kernels/heads.h"

#include <algorithm>

namespace mebp::mlx {

namespace mx = ::mlx::core;

static array byItem(const array &matrix, int batch) { return mx::reshape(matrix, {batch, -1, matrix.shape(1)}); }

static void append(Call &call) {
  const int batch = call.live.batch, capacity = call.attributes.capacity;
  const array &state = call.value(0).data;
  const array kept = byItem(state, batch), rows = byItem(mx::astype(call.value(1).data, state.dtype()), batch);
  // One row never goes around the end of a ring.
  const array first = (call.live.position % capacity).node();
  auto scattered = [&] {
    const array places = mx::remainder(range(call.live.position, rows.shape(1)), array(capacity));
    // One update for each row that is named, of one row of every item.
    const array updates = mx::expand_dims(mx::transpose(rows, {1, 0, 2}), 2);
    return mx::scatter(kept, {places}, updates, {1});
  };
  const array extended = rows.shape(1) == 1 ? mx::slice_update(kept, rows, first, {1}) : scattered();
  call.give(0, mx::reshape(extended, state.shape()));
}

int keptRows(const Call &call) { return std::min(call.live.keptPositions, call.attributes.capacity); }

array keyPositions(const Call &call) {
  const Start last = call.live.position + (call.live.sequence - 1);
  // Of what lies in a row, the position is the last one that the row may have; below zero, nothing lies there.
  const array key =
      last.node() - mx::remainder(last.node() - mx::arange(keptRows(call)), array(call.attributes.capacity));
  return mx::where(key >= array(0), key, last.node() + array(1));
}

array queryPositions(const Call &call) { return mx::reshape(range(call.live.position, call.live.sequence), {-1, 1}); }

void attendToState(Call &call) {
  const int batch = call.live.batch, count = call.live.sequence, capacity = call.attributes.capacity;
  const int rows = keptRows(call);
  const Heads heads(call);
  const array key = keyPositions(call), query = queryPositions(call);
  const array q = call.numbers(0);
  auto keysOf = [&](size_t operand, int item) {
    Value part = sliceRows(call.value(operand), item * capacity, rows);
    return heads.keys(numbersOf(part));
  };
  std::vector<array> outputs, sums;
  for (int item = 0; item < batch; ++item) {
    const Softmax softmax(heads.scores(heads.queries(rowsOf(q, item * count, count)), keysOf(1, item), query, key,
                                       {std::nullopt, std::nullopt, true}),
                          heads.sinks(call));
    outputs.push_back(heads.fromQueries(product(softmax.p, keysOf(2, item)) / softmax.total));
    sums.push_back(heads.fromQueries(softmax.logarithm()));
  }
  call.give(0, mx::concatenate(outputs, 0));
  if (call.wants(1))
    call.give(1, mx::concatenate(sums, 0));
}

constexpr NamedKernel entries[] = {{"append", append}};
constexpr KernelTable stateKernels = entries;

} // namespace mebp::mlx
