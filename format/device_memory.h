// SPDX-License-Identifier: Apache-2.0
//
// What MLX holds while it computes one call, beside the call's operands and results. The compiler plans a device's
// memory by it, MLX's tests hold every kernel to it: no call holds more.
//
// A device has no kernel for a call as a whole: it computes values one after the other, in f32, and each that is still
// read has memory of its own. What that comes to is, in f32, so many times the largest result and so many times the
// largest operand with a row for each token (`copies` in kernels.h); what is stored narrower, once more in f32; and
// what some kernels make beside, which is counted here.
#pragma once

#include "format/kernels.h"
#include "format/storage.h"

#include <algorithm>
#include <cstdint>

namespace mebp::format {

// Attention takes so many queries of an item at a time, and a dense product of a quantised matrix so many of its
// numbers.
constexpr uint64_t queryPiece = 256, productTile = 1 << 20;

struct HeldMatrix {
  uint64_t rows = 0, columns = 0; // no rows: absent
  Storage storage = Storage::F32;

  uint64_t elements() const { return rows * columns; }
  uint64_t bytesAsNumbers() const { return elements() * sizeof(float); }
};

struct HeldCall {
  const KernelSignature &signature;
  const HeldMatrix *operands;
  size_t operandCount;
  const HeldMatrix *results;
  size_t resultCount;
  uint64_t heads = 0, window = 0; // of attention, and of recurrences
  uint64_t frequencies = 0;       // of rope
  bool densely = false;           // products that give input gradients take a quantised matrix tile by tile, as numbers
};

namespace held {

// Codes, these times their scales, with their minima, and rounded to bf16.
constexpr uint64_t perNumber = 3 * sizeof(float) + sizeof(uint16_t);

inline uint64_t ofWeight(const HeldCall &call) {
  if (call.operandCount < 2)
    return 0;
  const HeldMatrix &weight = call.operands[1];
  if (weight.storage == Storage::BF16)
    return weight.bytesAsNumbers();
  if (!call.densely || !isQuantised(weight.storage))
    return 0;
  return std::min(weight.elements(), std::max(productTile, weight.columns)) * perNumber;
}

// All of them as numbers, for each slot chooses one; and of each slot what it multiplies, where a token has that once.
// What lies in columns is brought into rows, for which it is as large again.
inline uint64_t ofExperts(const HeldCall &call) {
  const HeldMatrix &weight = call.operands[1], &ids = call.operands[2];
  const HeldMatrix &y = call.signature.operands[0].shape[1] == 'Y' ? call.operands[0] : call.results[0];
  const HeldMatrix &x = call.signature.operands[0].shape[1] == 'Y' ? call.results[0] : call.operands[0];
  if (weight.rows * ids.columns == y.columns)
    return 2 * weight.elements() * sizeof(float) + x.bytesAsNumbers();
  const uint64_t numbers = weight.storage == Storage::F32 ? 0
                           : isQuantised(weight.storage)  ? weight.elements() * perNumber
                                                          : weight.bytesAsNumbers();
  return numbers + ids.elements() * weight.columns * sizeof(float);
}

// Scores, and what softmax makes of them; queries, keys and values once more, with their heads in front.
inline uint64_t ofAttention(const HeldCall &call) {
  const uint64_t rows = std::min(call.operands[0].rows, queryPiece), all = call.operands[1].rows;
  const uint64_t keys = call.window && call.signature.causal ? std::min(all, call.window - 1 + rows) : all;
  const uint64_t scores = call.heads * rows * keys * sizeof(float);
  uint64_t bytes = call.signature.cost == Cost::Attention ? 2 * scores : 5 * scores / 2;
  for (size_t i = 0; i < call.operandCount; ++i)
    bytes += call.operands[i].bytesAsNumbers();
  return bytes;
}

// Each result in tiles, before they are joined. Of one tile what lies between its rows, or has features of each head,
// and the states before and behind it.
inline uint64_t ofRecurrence(const HeldCall &call) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < call.resultCount; ++i)
    bytes += call.results[i].bytesAsNumbers();
  const uint64_t rows = std::min<uint64_t>(call.operands[0].rows, markedRows), values = call.operands[2].columns;
  for (const Slot &slot : call.signature.operands) {
    if (slot.carry == Carry::No)
      continue;
    const uint64_t state = call.results[slot.accumulates].columns, keyWidth = state / values;
    const uint64_t tile = rows * std::max({values, call.heads * keyWidth, call.heads * rows}) * sizeof(float);
    const bool isForward = slot.carry == Carry::Forwards;
    bytes += (isForward ? 5 : 11) * tile + (isForward ? 3 : 4) * state * sizeof(float);
  }
  return bytes;
}

// Exponentials and what they are multiplied with, beside the cotangents, where the entropy has a coefficient.
inline uint64_t ofEntropy(const HeldCall &call) {
  constexpr size_t coefficients = 7; // among the operands
  const bool isAsked = call.operandCount > coefficients && call.operands[coefficients].rows > 0;
  return isAsked ? 2 * call.results[0].bytesAsNumbers() : 0;
}

// Angles, their cosines and sines, and one of those before it is scaled.
inline uint64_t ofRotation(const HeldCall &call) { return 4 * call.results[0].rows * call.frequencies * sizeof(float); }

} // namespace held

inline uint64_t bytesHeldWithin(const HeldCall &call) {
  uint64_t bytes = 0, largestResult = 0, largestRows = 0;
  auto count = [&](const HeldMatrix &matrix, uint64_t &largest) {
    largest = std::max(largest, matrix.bytesAsNumbers());
    if (matrix.storage == Storage::BF16)
      bytes += matrix.bytesAsNumbers();
  };
  for (size_t i = 0; i < call.resultCount; ++i)
    count(call.results[i], largestResult);
  for (size_t i = 0; i < call.operandCount; ++i)
    if (call.signature.parts == Parts::Operands || call.signature.operands[i].type != SlotType::Weight)
      count(call.operands[i], largestRows);
  bytes += call.signature.copiesOfResult * largestResult + call.signature.copiesOfOperand * largestRows;
  switch (call.signature.cost) {
  case Cost::Product:
    return bytes + held::ofWeight(call);
  case Cost::ExpertProduct:
    return bytes + held::ofExperts(call);
  case Cost::Attention:
  case Cost::AttentionGradient:
    return bytes + held::ofAttention(call);
  case Cost::Recurrence:
    return bytes + held::ofRecurrence(call);
  default:
    if (call.signature.rule == Rule::Convolution)
      return bytes + 4 * call.results[1].bytesAsNumbers(); // rows beside the call's, as often as it has copies of those
    if (call.signature.rule == Rule::Entropy)
      return bytes + held::ofEntropy(call);
    return call.signature.rule == Rule::Rotary ? bytes + held::ofRotation(call) : bytes;
  }
}

} // namespace mebp::format
