// SPDX-License-Identifier: Apache-2.0
//
// What a kernel call's time is made of. The runtime finds the rates of these terms on a machine, the compiler counts
// the terms of a plan's calls: both count here.
#pragma once

#include "format/kernels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace mebp::format {

// Of the file that `mebp calibrate` writes.
constexpr int ratesVersion = 1;

// A call takes the sum of its amounts times their rates. `call`: 1. `product`: multiplications whose results are added
// up. `weight`: elements of a weight, once a call. `element`: of activations, read or written.
constexpr size_t termCount = 4;
inline constexpr const char *termNames[termCount] = {"call", "product", "weight", "element"};
using Amounts = std::array<double, termCount>;
using Rates = std::array<double, termCount>; // nanoseconds of one of each

inline double nanosecondsOf(const Amounts &amounts, const Rates &rates) {
  double sum = 0;
  for (size_t term = 0; term < termCount; ++term)
    sum += amounts[term] * rates[term];
  return sum;
}

struct Extents {
  double rows = 0, columns = 0;
  double elements() const { return rows * columns; }
};

// Operands and results in docs/kernels.md's order; absent operands have no rows.
struct CountedCall {
  const KernelSignature &signature;
  const Extents *operands;
  size_t operandCount;
  const Extents *results;
  size_t resultCount;
  double visibleKeys; // of a query of attention, on average

  // The left factor of a product of low rank beside a linear layer's own; no rows where there is none.
  Extents low() const {
    int index = findOperand(signature, "low");
    return index >= 0 && static_cast<size_t>(index) < operandCount ? operands[index] : Extents();
  }
};

// Of a call that multiplies the slots of each token with an expert's share of a weight.
struct ExpertExtents {
  double slots = 0, tokens = 0, inputs = 0, outputs = 0, experts = 0;

  explicit ExpertExtents(const CountedCall &call) {
    auto find = [&](char letter, const Slot(&slotsOf)[maximumSlots], const Extents *extents, size_t count) {
      for (size_t i = 0; i < count; ++i)
        if (slotsOf[i].shape[1] == letter && extents[i].rows > 0)
          return extents[i];
      return Extents();
    };
    auto extentsOf = [&](char letter) {
      const Extents operand = find(letter, call.signature.operands, call.operands, call.operandCount);
      return operand.rows > 0 ? operand : find(letter, call.signature.results, call.results, call.resultCount);
    };
    const Extents ids = extentsOf('J'), y = extentsOf('Y'), weight = extentsOf('K');
    if (ids.columns <= 0 || y.columns <= 0)
      return;
    slots = ids.columns, tokens = ids.rows;
    outputs = y.columns / slots;
    const bool inColumns = weight.rows == outputs; // each expert has some columns of all rows
    inputs = inColumns ? extentsOf('X').columns / slots : weight.columns;
    experts = weight.elements() / (outputs * inputs);
  }
  // Every slot of every token once, whichever expert it goes to.
  double products() const { return tokens * slots * inputs * outputs; }
  // At most as many experts are read as there are slots.
  double weights() const { return std::min(experts, tokens * slots) * inputs * outputs; }
};

inline Amounts countAmounts(const CountedCall &call) {
  const Extents *in = call.operands, *out = call.results;
  double elements = 0;
  for (size_t i = 0; i < call.resultCount; ++i)
    elements += out[i].elements();
  switch (call.signature.cost) {
  case Cost::Product:
    return {1, in[0].rows * in[1].elements() + call.low().elements() * out[0].columns, in[1].elements(),
            in[0].elements() + out[0].elements()};
  case Cost::WeightGradient:
    return {1, in[0].rows * out[0].elements(), out[0].elements(), in[0].elements() + in[1].elements()};
  case Cost::ExpertProduct:
  case Cost::ExpertWeightGradient: {
    const ExpertExtents experts(call);
    return {1, experts.products(), experts.weights(), in[0].elements() + out[0].elements()};
  }
  case Cost::Attention: // scores and values
    return {1, (in[0].elements() + out[0].elements()) * call.visibleKeys, 0, in[0].elements()};
  case Cost::AttentionGradient: // five; where two sweeps make seven, the rate has it
    return {1, (3 * in[0].elements() + 2 * in[3].elements()) * call.visibleKeys, 0, in[0].elements()};
  case Cost::Recurrence: { // of each row with the whole state, back again from marks for a gradient
    const bool isGradient = call.resultCount > 3;
    const Extents state = out[isGradient ? 5 : 1];
    return {1, in[0].rows * state.columns * (isGradient ? 12 : 4), 0, elements - state.elements()};
  }
  case Cost::LossTile:
    return {1, 0, 0, out[0].elements()};
  case Cost::Elements:
    break;
  }
  return {1, 0, 0, elements};
}

// The name that a call's rates stand under: its kernel, how its activations are stored ("f32" or "bf16"), and what else
// tells apart calls whose terms take differently long. Of a product that is its weight: "int4", "int8", "bf16" or "f32"
// where it is frozen, followed by " low" with a product of low rank beside it, "lora_down" or "lora_up" where it is a
// factor of an adapter; of a gate its activation function.
inline std::string rateName(std::string_view kernel, std::string_view storage, std::string_view kind = "") {
  std::string name(kernel);
  name.append(" ").append(storage);
  return kind.empty() ? name : name.append(" ").append(kind);
}

// Beside the kernels' names: those of optimizers, for an element of an adapter, and these for a byte that is written
// and read again, in a file and in memory that no cache holds.
constexpr const char *spillRate = "spill", *memoryRate = "memory";
// Of an optimizer's updates: those of a tensor that one thread updates go by its name, those of larger ones by this.
inline std::string rateOfLarge(std::string_view optimizer) { return std::string(optimizer) + " large"; }

} // namespace mebp::format
