// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/kernel_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mebp {

static Status wrong(const KernelShape &shape, const char *what) {
  return failure(MEBP_CORRUPT, "'%s' %s", shape.kernel.name().c_str(), what);
}

static Status checkLowRank(const KernelShape &shape, const format::KernelSignature &signature) {
  int low = format::findOperand(signature, "low");
  if (shape.hasOperand(low) != shape.hasOperand(low + 1))
    return wrong(shape, "has one factor of a product of low rank without the other");
  if (shape['R'] > format::maximumLowRank)
    return wrong(shape, "has a product of low rank beyond 64");
  return Status();
}
static Status checkLoss(const KernelShape &shape) {
  bool gradient = shape.kernel.results_size() > 2 && shape.kernel.results(2) >= 0;
  if (gradient && (!shape.hasOperand(5) || !shape.hasOperand(6) || !shape.hasOperand(7)))
    return wrong(shape, "gives a gradient without the coefficients, the accumulator and the weight that it needs");
  return Status();
}

static Status checkEntropy(const KernelShape &shape) {
  if (shape.hasOperand(6) != shape.hasOperand(7))
    return wrong(shape, "has coefficients of the entropy without the sum that it is made of, or the sum alone");
  return Status();
}

static Status checkTable(const KernelShape &shape) {
  const int64_t columns = shape['C'], width = shape['D'];
  if (columns == width || (shape.hasOperand(2) && columns % width == 0))
    return Status();
  return wrong(shape, "gives columns that are not its table's, nor a part of them");
}

static Status checkGroups(const KernelShape &shape) {
  if (shape['F'] % shape['G'] != 0)
    return wrong(shape, "has columns that its weight's do not divide");
  return Status();
}

static Status checkDropout(const KernelShape &shape) {
  if (shape.attributes.p >= 0 && shape.attributes.p < 1)
    return Status();
  return wrong(shape, "has a p that is not from 0 to below 1");
}

static Status checkRotary(const KernelShape &shape) {
  const Attributes &attributes = shape.attributes;
  if (attributes.headDim <= 0 || shape['F'] % attributes.headDim != 0)
    return wrong(shape, "has columns that head_dim does not divide");
  if (2 * static_cast<int64_t>(attributes.frequencyCount) > attributes.headDim)
    return wrong(shape, "has more frequencies than half of head_dim");
  return Status();
}

static Status checkHeads(const KernelShape &shape, const format::KernelSignature &signature) {
  const Attributes &attributes = shape.attributes;
  if (attributes.heads <= 0 || attributes.kvHeads <= 0 || attributes.heads % attributes.kvHeads != 0)
    return wrong(shape, "has heads that kv_heads does not divide");
  auto fit = [&](int64_t queries, int64_t keys) {
    return queries % attributes.heads == 0 && queries / attributes.heads * attributes.kvHeads == keys;
  };
  if (shape['H'] != attributes.heads || !fit(shape['Q'], shape['U']) || !fit(shape['O'], shape['W']))
    return wrong(shape, "has columns that do not fit its heads");
  if (!attributes.slopes)
    return Status();
  if (attributes.slopeCount != attributes.heads || attributes.softcap > 0 || !signature.causal)
    return wrong(shape, "has slopes that are not one for each head of causal attention without a softcap");
  if (!std::all_of(attributes.slopes, attributes.slopes + attributes.slopeCount,
                   [](float x) { return std::isfinite(x); }))
    return wrong(shape, "has a slope that is not finite");
  return Status();
}

static Status checkRow(const KernelShape &shape) {
  return shape.attributes.offset < shape['R'] ? Status() : wrong(shape, "takes a row beyond its table");
}

static Status checkRepeat(const KernelShape &shape) {
  return shape['G'] % shape['F'] == 0 ? Status() : wrong(shape, "has columns that do not repeat others");
}

static Status checkState(const KernelShape &shape) {
  return shape.attributes.capacity ? Status() : wrong(shape, "does not say the capacity of its state");
}

// Letters of what a call does not have are 0.
static Status checkRoute(const KernelShape &shape) {
  const Attributes &attributes = shape.attributes;
  const int64_t experts = shape['E'], chosen = shape['J'], groups = attributes.groups;
  const int64_t kept = attributes.topGroups ? attributes.topGroups : groups, best = attributes.bestOfGroup;
  if (groups <= 0 || experts % groups != 0 || kept > groups || best <= 0 || best > experts / groups)
    return wrong(shape, "has groups that its experts do not make up");
  if (chosen > experts / groups * kept)
    return wrong(shape, "chooses more experts than there are");
  if (attributes.threshold < 0)
    return wrong(shape, "has a threshold below 0");
  return Status();
}

static Status checkExperts(const KernelShape &shape) {
  const int64_t slots = shape['J'], inputs = shape['K'], outputs = shape['Y'] / slots, slot = shape['X'] / slots;
  if (shape['Y'] % slots != 0 || shape['M'] % outputs != 0)
    return wrong(shape, "has columns that do not fit its slots and experts");
  const bool mustShare = shape.kernel.name() == "expert_linear_shared_gradient";
  const bool inColumns = shape['M'] == outputs && !mustShare;
  if (shape.kernel.name() == "expert_linear" && shape.hasOperand(4) &&
      shape['B'] != (inColumns ? (slot ? inputs / slot : 0) * outputs : shape['M']))
    return wrong(shape, "has a bias that does not fit its experts");
  if (inColumns)
    return shape['X'] % slots == 0 && inputs % slot == 0 ? Status()
                                                         : wrong(shape, "has columns that do not fit its weight");
  const bool mayShare = mustShare || shape.kernel.name() != "expert_linear_input_gradient";
  if ((mayShare && shape['X'] == inputs) || (!mustShare && shape['X'] == slots * inputs))
    return Status();
  return wrong(shape, "has columns that do not fit its weight");
}

static Status checkExpertSum(const KernelShape &shape) {
  return shape['Y'] == shape['J'] * shape['D'] ? Status() : wrong(shape, "has columns that do not fit its slots");
}

// A state has all rows but one that a convolution reads, of each item that it is of.
static Status checkConvolution(const KernelShape &shape) {
  const int64_t kept = shape['W'] - 1, items = std::max<int64_t>(shape.attributes.items, 1);
  if (kept < 1 || shape['K'] != kept * items)
    return wrong(shape, "carries rows that do not fit its width");
  return Status();
}

static Status checkRates(const KernelShape &shape) {
  if (shape['G'] && shape['F'] % shape['G'] != 0)
    return wrong(shape, "has columns that its rates do not divide");
  return Status();
}

// A state has a matrix for each head, of each item that it is of.
static Status checkDelta(const KernelShape &shape) {
  const int64_t heads = shape.attributes.heads, keyHeads = shape.attributes.kvHeads;
  if (heads <= 0 || keyHeads <= 0 || heads % keyHeads != 0 || shape['Q'] % keyHeads != 0 || shape['U'] % heads != 0 ||
      shape['H'] != heads || shape['T'] / shape['U'] != shape['Q'] / keyHeads || shape['T'] % shape['U'] != 0)
    return wrong(shape, "has columns that do not fit its heads");
  if (shape['Q'] / keyHeads > format::widestKey)
    return wrong(shape, "has wider keys than there is room for");
  if (shape['R'] != std::max<int64_t>(shape.attributes.items, 1))
    return wrong(shape, "carries states that do not fit its items");
  return Status();
}

// How much of a call there is of what the room grows with, and its name.
static std::pair<int64_t, const char *> countOf(const KernelShape &shape, const format::KernelSignature &signature) {
  switch (signature.roomPer) {
  case format::Per::WeightColumn: {
    const format::Slot &weight = signature.operands[format::findOperand(signature, "w")];
    return {shape[weight.shape[1]], "longer weight rows"};
  }
  case format::Per::HeadColumn:
    return {std::max(shape['Q'], shape['O']) / shape.attributes.heads, "wider heads"};
  case format::Per::Frequency:
    return {shape.attributes.frequencyCount, "more frequencies"};
  case format::Per::Expert:
    return {shape['E'], "more experts"};
  case format::Per::StateElement:
    return {shape['T'] / shape.attributes.heads, "larger states"};
  case format::Per::Unstated:
  case format::Per::Nothing:
    break;
  }
  return {0, ""};
}

Status checkRoom(const KernelShape &shape, const format::KernelSignature &signature) {
  const auto [count, what] = countOf(shape, signature);
  if (static_cast<uint64_t>(count) * signature.roomBytes <= format::workspaceBytes)
    return Status();
  return failure(MEBP_UNSUPPORTED, "'%s' has %s than kernels have room for", shape.kernel.name().c_str(), what);
}

Status checkRule(const KernelShape &shape, const format::KernelSignature &signature) {
  switch (signature.rule) {
  case format::Rule::None:
    return Status();
  case format::Rule::LowRank:
    return checkLowRank(shape, signature);
  case format::Rule::Table:
    return checkTable(shape);
  case format::Rule::Groups:
    return checkGroups(shape);
  case format::Rule::Heads:
    return checkHeads(shape, signature);
  case format::Rule::State:
    return checkState(shape);
  case format::Rule::Rotary:
    return checkRotary(shape);
  case format::Rule::Row:
    return checkRow(shape);
  case format::Rule::Repeat:
    return checkRepeat(shape);
  case format::Rule::Loss:
    return checkLoss(shape);
  case format::Rule::Entropy:
    return checkEntropy(shape);
  case format::Rule::Route:
    return checkRoute(shape);
  case format::Rule::Experts:
    return checkExperts(shape);
  case format::Rule::ExpertSum:
    return checkExpertSum(shape);
  case format::Rule::Convolution:
    return checkConvolution(shape);
  case format::Rule::Rates:
    return checkRates(shape);
  case format::Rule::Delta:
    return checkDelta(shape);
  case format::Rule::Dropout:
    return checkDropout(shape);
  }
  return Status();
}

} // namespace mebp
