// SPDX-License-Identifier: Apache-2.0
//
// What a row of the table of kernels (kernels.h) can say, and the words that it says it with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mebp::format {

// The highest rank of a product beside a linear layer's own: kernels have room for its weight.
constexpr int64_t maximumLowRank = 64;

// Attention goes through keys in tiles of so many positions, each from a multiple of it on. A state that keeps fewer
// positions than there may be, in a ring, keeps whole tiles.
constexpr int64_t keyTile = 64;

// Every so many rows of a call, from its first one of each batch item, a recurrence leaves the state before them, from
// which its gradient goes on.
constexpr int64_t markedRows = 64;
// How many states a call over so many rows of one batch item leaves.
template <typename Count> constexpr Count marksOf(Count rows) { return (rows + markedRows - 1) / markedRows; }

// The widest key of a recurrence: kernels have room for one.
constexpr int64_t widestKey = 256;

// Scratch of the CPU's kernels, for one thread within one call.
constexpr size_t workspaceBytes = 512 * 1024;

enum class SlotType : uint8_t {
  Activation, // f32 or bf16
  Exact,      // f32: sums over many tokens, statistics of a softmax, and what is computed from logits
  Weight,     // f32, bf16 or quantised
  Ids,        // i32 below the vocabulary
  Labels,     // i32 below the vocabulary, or -100
  Starts,     // i32: of each row the position within its batch item where its sample starts
  Ends,       // i32: and where the next one does
};

// Numbers of rows, which the step is given.
constexpr bool isIndex(SlotType type) {
  return type == SlotType::Ids || type == SlotType::Labels || type == SlotType::Starts || type == SlotType::Ends;
}

constexpr int8_t noSlot = -1;

// Which way a state goes that a kernel carries from row to row: to later rows, or to earlier ones.
enum class Carry : uint8_t { No, Forwards, Backwards };

// One operand or result. Its shape is two characters: 1, or a letter for a dimension that is the same wherever the
// letter stands. Some letters say more: N is the rows of tokens that a call computes, S all tokens of the step (of a
// causal kernel, it uses those up to its own rows), V covers the vocabulary, P every position, Z has one row for every
// `markedRows` of N.
struct Slot {
  const char *name = nullptr;
  const char *shape = nullptr;
  SlotType type = SlotType::Activation;
  bool optional = false;
  int8_t accumulates = noSlot; // the result that is added to this operand, and must share its memory
  int8_t reused = noSlot;      // the result that may take over this operand's memory if nothing reads it later
  // Of an operand that `accumulates`: it is not added to, but what the call's first row (or its last one, backwards)
  // goes on from, and the result what the other end leaves. Where a batch item begins, it is not read.
  Carry carry = Carry::No;
};

constexpr size_t maximumSlots = 10;

// Kernels that cut a matrix [N,F] into its columns or join them: which side has any number of parts.
enum class Parts : uint8_t { None, Operands, Results };

// What a call's time is made of (rates.h).
enum class Cost : uint8_t {
  Elements,
  Product,
  WeightGradient,
  ExpertProduct,
  ExpertWeightGradient,
  Attention,
  AttentionGradient,
  Recurrence,
  LossTile
};

// What a thread's workspace has to hold of a call, besides what is as large in every call: so many bytes for each
// column of its weight `w` or of a head, or for each frequency, expert, or element of a head's state.
enum class Per : uint8_t { Unstated, Nothing, WeightColumn, HeadColumn, Frequency, Expert, StateElement };

// What shapes alone do not say, and the runtime checks (runtime/bundle/kernel_rules.cpp).
enum class Rule : uint8_t {
  None,
  LowRank,
  Table,
  Groups,
  Heads,
  State,
  Rotary,
  Row,
  Repeat,
  Loss,
  Entropy,
  Route,
  Experts,
  ExpertSum,
  Convolution,
  Rates,
  Delta,
  Dropout
};

struct KernelSignature {
  const char *name;
  Slot operands[maximumSlots];
  Slot results[maximumSlots];
  Cost cost = Cost::Elements;
  Rule rule = Rule::None;
  bool tokenRows = false; // N must be rows of tokens: the kernel asks for their positions
  bool causal = false;    // of S, a row reads and adds to no later row
  bool ofState = false;   // S may be a state: `capacity` rows for each batch item, position p in row p % capacity
  bool gathers = false;   // a row of N reads a row of the table and no other row: it can be had some rows at a time
  Parts parts = Parts::None;
  Per roomPer = Per::Unstated; // of the workspace, and how many bytes: a call that needs more than there is is refused
  uint32_t roomBytes = 0;
  // What a device without a kernel for the whole call holds within it, in f32: so many times the largest result, and so
  // many times the largest operand that is no weight (device_memory.h).
  uint8_t copiesOfResult = 1, copiesOfOperand = 0;

private:
  // Before those that call it, or clang takes none of them for a constant.
  template <typename Value> constexpr KernelSignature with(Value KernelSignature::*member, Value value) const {
    KernelSignature signature = *this;
    signature.*member = value;
    return signature;
  }

public:
  constexpr KernelSignature costing(Cost value) const { return with(&KernelSignature::cost, value); }
  constexpr KernelSignature under(Rule value) const { return with(&KernelSignature::rule, value); }
  constexpr KernelSignature ofTokens() const { return with(&KernelSignature::tokenRows, true); }
  constexpr KernelSignature inOrder() const { return with(&KernelSignature::causal, true); }
  constexpr KernelSignature orOfState() const { return with(&KernelSignature::ofState, true); }
  constexpr KernelSignature gathering() const { return with(&KernelSignature::gathers, true); }
  constexpr KernelSignature withoutRoom() const { return with(&KernelSignature::roomPer, Per::Nothing); }
  constexpr KernelSignature needing(uint32_t bytes, Per per) const {
    return with(&KernelSignature::roomPer, per).with(&KernelSignature::roomBytes, bytes);
  }
  constexpr KernelSignature copying(uint8_t results, uint8_t operands = 0) const {
    return with(&KernelSignature::copiesOfResult, results).with(&KernelSignature::copiesOfOperand, operands);
  }
  constexpr KernelSignature withAnyNumberOf(Parts value) const { return with(&KernelSignature::parts, value); }
};

namespace slots {

constexpr Slot activation(const char *name, const char *shape) { return {name, shape}; }
constexpr Slot exact(const char *name, const char *shape) { return {name, shape, SlotType::Exact}; }
constexpr Slot weight(const char *name, const char *shape) { return {name, shape, SlotType::Weight}; }
constexpr Slot ids(const char *name) { return {name, "N1", SlotType::Ids}; }
constexpr Slot labels(const char *name) { return {name, "N1", SlotType::Labels}; }
// Absent: every batch item is one sample.
constexpr Slot starts() { return {"starts", "N1", SlotType::Starts, true}; }
constexpr Slot ends() { return {"ends", "N1", SlotType::Ends, true}; }
constexpr Slot optional(Slot slot) {
  slot.optional = true;
  return slot;
}
constexpr Slot accumulating(Slot slot, int8_t result) {
  slot.accumulates = result;
  return slot;
}
constexpr Slot carried(Slot slot, int8_t result, Carry carry = Carry::Forwards) {
  slot.optional = true;
  slot.accumulates = result;
  slot.carry = carry;
  return slot;
}
constexpr Slot inPlace(Slot slot, int8_t result = 0) {
  slot.reused = result;
  return slot;
}

constexpr KernelSignature elementwise(const char *name) {
  return KernelSignature{name, {inPlace(activation("x", "NF"))}, {activation("y", "NF")}}.withoutRoom();
}
constexpr KernelSignature elementwiseGradient(const char *name) {
  return KernelSignature{name, {activation("x", "NF"), inPlace(activation("dy", "NF"))}, {activation("dx", "NF")}}
      .copying(3)
      .withoutRoom();
}
constexpr KernelSignature binary(const char *name) {
  return KernelSignature{name, {inPlace(activation("a", "NF")), activation("b", "NF")}, {activation("y", "NF")}}
      .withoutRoom();
}

} // namespace slots

} // namespace mebp::format
