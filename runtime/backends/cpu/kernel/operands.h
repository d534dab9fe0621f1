// SPDX-License-Identifier: Apache-2.0
//
// Small accessors that all kernels share.
#pragma once

#include "runtime/backends/cpu/kernel/row.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mebp::cpu {

// The operand or result at `index`; a tensor without data where the call is shorter.
inline const Tensor &operandOf(const Call &call, size_t index) {
  static const Tensor absent;
  return index < call.operandCount ? call.operands[index] : absent;
}
inline const Tensor &resultOf(const Call &call, size_t index) {
  static const Tensor absent;
  return index < call.resultCount ? call.results[index] : absent;
}

inline int32_t labelOf(const Tensor &labels, int64_t row) { return labels.i32()[row * labels.stride]; }

// Of an embedding, the row of its table that a token has, or the part of it that the token's operand `part` names:
// zeros where there is no such part, as a damaged number names.
inline void takeRow(const Call &call, int64_t row) {
  const Tensor &w = call.operands[1], &part = operandOf(call, 2), &y = call.results[0];
  const float number = part.present() ? part.f32()[row * part.stride] : 0;
  const Row out = {y.data, y.storage, row * y.stride};
  if (number >= 0 && number < static_cast<float>(w.columns / y.columns))
    return dequantize(w, labelOf(call.operands[0], row), static_cast<int64_t>(number) * y.columns, y.columns, out);
  for (int64_t column = 0; column < y.columns; ++column)
    out.set(column, 0);
}

// Where row `row` of a chunk stands: which batch item, and which position within its sequence.
struct Place {
  int64_t item;
  int64_t position;
};
inline Place placeOf(const Tensor &tensor, int64_t row, const Context &context) {
  int64_t token = tensor.firstRow + row;
  return {token / context.sequence, context.position + token % context.sequence};
}

// The position, in its batch item, where the sample starts that a row belongs to: 0 without `starts`.
inline int64_t startOf(const Tensor &starts, int64_t row) {
  return starts.present() ? starts.i32()[row * starts.stride] : 0;
}

// The score without a key that a head's softmax has.
inline float sinkOf(const Tensor &sinks, int64_t head) {
  float sink = 0;
  dequantize(sinks, 0, head, 1, &sink);
  return sink;
}

// The row of a position of a batch item, in keys or values: of the step's tokens, or of a state of some capacity.
inline int64_t rowOfKey(int64_t item, int64_t position, int64_t capacity, const Context &context) {
  return capacity ? item * capacity + position % capacity : item * context.sequence + position;
}

// The first key position that a query at `position`, of a sample from `start` on, sees.
inline int64_t firstVisible(int64_t position, int64_t window, int64_t start) {
  return window > 0 && position - start >= window ? position - window + 1 : start;
}

// Which keys queries see: those of the same sample and within the window, causally up to the query itself.
struct Sight {
  const Tensor &starts, &ends; // ends: of attention in both directions
  int64_t window, sequence;
  bool isCausal;

  // `starts`: which operand of the call they are; those of attention in both directions have `ends` behind them.
  Sight(const Call &call, const Context &context, size_t starts, bool isCausal)
      : starts(operandOf(call, starts)), ends(operandOf(call, isCausal ? call.operandCount : starts + 1)),
        window(call.attributes.window), sequence(context.sequence), isCausal(isCausal) {}

  struct Keys {
    int64_t first, end; // positions of the batch item
  };
  Keys keysOf(int64_t row, int64_t position) const {
    const int64_t first = firstVisible(position, window, startOf(starts, row));
    if (isCausal)
      return {first, position + 1};
    const int64_t end = ends.present() ? ends.i32()[row * ends.stride] : sequence;
    return {first, window > 0 ? std::min(end, position + window) : end};
  }
};

// What a call of attention has beside its keys; nothing in both directions, where `ends` are in that place.
inline const Tensor &sinksOf(const Call &call, const Sight &sight) {
  return operandOf(call, sight.isCausal ? 4 : call.operandCount);
}

} // namespace mebp::cpu
