// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/signatures.h"

namespace mebp {

static constexpr Slot activation(const char *name, const char *shape) { return {name, shape}; }
static constexpr Slot exact(const char *name, const char *shape) { return {name, shape, SlotType::Exact}; }
static constexpr Slot weight(const char *name, const char *shape) { return {name, shape, SlotType::Weight}; }
static constexpr Slot ids(const char *name) { return {name, "N1", SlotType::Ids}; }
static constexpr Slot labels(const char *name) { return {name, "N1", SlotType::Labels}; }
static constexpr Slot optional(Slot slot) {
  slot.optional = true;
  return slot;
}
static constexpr Slot accumulating(Slot slot, int result) {
  slot.accumulates = result;
  return slot;
}

static Status wrong(const KernelShape &shape, const char *what) {
  return failure(MEBP_CORRUPT, "'%s' %s", shape.kernel.name().c_str(), what);
}

// A kernel dequantises a row of a weight, with as many sums in double, in one thread's workspace.
static Status checkRow(const KernelShape &shape, char letter) {
  constexpr int64_t longest = cpu::workspaceBytes / (sizeof(float) + sizeof(double));
  return shape[letter] <= longest ? Status() : wrong(shape, "has weight rows that are longer than this build can take");
}

static Status checkLinear(const KernelShape &shape, int low) {
  if (shape.hasOperand(low) != shape.hasOperand(low + 1))
    return wrong(shape, "has one factor of a product of low rank without the other");
  if (shape['R'] > cpu::maximumLowRank)
    return wrong(shape, "has a product of low rank beyond 64");
  return checkRow(shape, 'K');
}
static Status checkLinearForward(const KernelShape &shape) { return checkLinear(shape, 4); }
static Status checkLinearGradient(const KernelShape &shape) { return checkLinear(shape, 3); }
static Status checkFeatures(const KernelShape &shape) { return checkRow(shape, 'F'); }
static Status checkLoss(const KernelShape &shape) {
  bool gradient = shape.kernel.results_size() > 1 && shape.kernel.results(1) >= 0;
  if (gradient && (!shape.hasOperand(6) || !shape.hasOperand(7)))
    return wrong(shape, "gives a gradient without the accumulator and the weight that it needs");
  return checkRow(shape, 'D');
}

static Status checkGroups(const KernelShape &shape) {
  if (shape['F'] % shape['G'] != 0)
    return wrong(shape, "has columns that its weight's do not divide");
  return checkRow(shape, 'G');
}

static Status checkRope(const KernelShape &shape) {
  const cpu::Attributes &attributes = shape.attributes;
  if (attributes.headDim <= 0 || shape['F'] % attributes.headDim != 0)
    return wrong(shape, "has columns that head_dim does not divide");
  if (2 * static_cast<int64_t>(attributes.frequencyCount) > attributes.headDim)
    return wrong(shape, "has more frequencies than half of head_dim");
  return Status();
}

static Status checkHeads(const KernelShape &shape) {
  const cpu::Attributes &attributes = shape.attributes;
  if (attributes.heads <= 0 || attributes.kvHeads <= 0 || attributes.heads % attributes.kvHeads != 0)
    return wrong(shape, "has heads that kv_heads does not divide");
  if (shape['H'] != attributes.heads || shape['Q'] % attributes.heads != 0 ||
      shape['Q'] / attributes.heads * attributes.kvHeads != shape['U'])
    return wrong(shape, "has columns that do not fit its heads");
  constexpr int64_t widestHead = 1024;
  return shape['Q'] / attributes.heads <= widestHead ? Status() : wrong(shape, "has heads wider than 1024");
}

int32_t tableOf(const Signature &signature) {
  for (size_t i = 0; i < maximumSlots; ++i)
    if (const char *shape = signature.operands[i].shape; shape && shape[0] == 'V')
      return static_cast<int32_t>(i);
  return -1;
}

const Signature *findSignature(const std::string &kernel) {
  static const Signature table[] = {
      {"embedding", {ids("ids"), weight("w", "VD")}, {activation("y", "ND")}, nullptr, false, Parts::None, true},
      {"position_embedding", {weight("w", "PD")}, {activation("y", "ND")}, nullptr, true},
      {"linear",
       {activation("x", "NK"), weight("w", "MK"), optional(weight("bias", "1M")), optional(activation("addend", "NM")),
        optional(activation("low", "NR")), optional(weight("low_weight", "MR"))},
       {activation("y", "NM")},
       checkLinearForward},
      {"linear_input_gradient",
       {activation("dy", "NM"), weight("w", "MK"), optional(activation("addend", "NK")),
        optional(activation("low", "NR")), optional(weight("low_weight", "RK"))},
       {activation("dx", "NK")},
       checkLinearGradient},
      {"linear_weight_gradient",
       {activation("dy", "NM"), activation("x", "NK"), optional(accumulating(exact("accumulator", "MK"), 0))},
       {exact("dw", "MK")}},
      {"rms_norm", {activation("x", "NF"), weight("w", "1G")}, {activation("y", "NF")}, checkGroups},
      {"rms_norm_input_gradient",
       {activation("x", "NF"), weight("w", "1G"), activation("dy", "NF")},
       {activation("dx", "NF")},
       checkGroups},
      {"layer_norm",
       {activation("x", "NF"), weight("w", "1F"), optional(weight("b", "1F"))},
       {activation("y", "NF")},
       checkFeatures},
      {"layer_norm_input_gradient",
       {activation("x", "NF"), weight("w", "1F"), activation("dy", "NF")},
       {activation("dx", "NF")},
       checkFeatures},
      {"rope", {activation("x", "NF")}, {activation("y", "NF")}, checkRope, true},
      {"attention",
       {activation("q", "NQ"), activation("k", "SU"), activation("v", "SU")},
       {activation("o", "NQ"), exact("lse", "NH")},
       checkHeads,
       true},
      {"attention_gradient",
       {activation("q", "NQ"), activation("k", "SU"), activation("v", "SU"), activation("o", "NQ"), exact("lse", "NH"),
        activation("do", "NQ"), optional(accumulating(exact("dk_accumulator", "SU"), 1)),
        optional(accumulating(exact("dv_accumulator", "SU"), 2))},
       {activation("dq", "NQ"), exact("dk", "SU"), exact("dv", "SU")},
       checkHeads,
       true},
      {"silu", {activation("x", "NF")}, {activation("y", "NF")}},
      {"relu", {activation("x", "NF")}, {activation("y", "NF")}},
      {"gelu", {activation("x", "NF")}, {activation("y", "NF")}},
      {"silu_gradient", {activation("x", "NF"), activation("dy", "NF")}, {activation("dx", "NF")}},
      {"relu_gradient", {activation("x", "NF"), activation("dy", "NF")}, {activation("dx", "NF")}},
      {"gelu_gradient", {activation("x", "NF"), activation("dy", "NF")}, {activation("dx", "NF")}},
      {"gated", {activation("gate", "NF"), activation("up", "NF")}, {activation("y", "NF")}},
      {"gated_gradient",
       {activation("gate", "NF"), activation("up", "NF"), activation("dy", "NF")},
       {activation("dgate", "NF"), activation("dup", "NF")}},
      {"add", {activation("a", "NF"), activation("b", "NF")}, {activation("y", "NF")}},
      {"multiply", {activation("a", "NF"), activation("b", "NF")}, {activation("y", "NF")}},
      {"scale", {activation("x", "NF")}, {activation("y", "NF")}},
      {"split", {activation("x", "NF")}, {}, nullptr, false, Parts::Results},
      {"concat", {}, {activation("y", "NF")}, nullptr, false, Parts::Operands},
      {"fill", {}, {activation("y", "NF")}},
      {"cross_entropy_tile",
       {exact("logits", "NC"), labels("labels"), accumulating(exact("max", "N1"), 1),
        accumulating(exact("sum", "N1"), 2), accumulating(exact("target", "N1"), 3),
        optional(accumulating(exact("accumulator", "ND"), 4))},
       {exact("p", "NC"), exact("max", "N1"), exact("sum", "N1"), exact("target", "N1"),
        optional(exact("accumulator", "ND"))}},
      {"cross_entropy",
       {labels("labels"), exact("max", "N1"), exact("sum", "N1"), exact("target", "N1"), exact("scale", "11"),
        accumulating(exact("loss_accumulator", "11"), 0), optional(exact("accumulator", "ND")),
        optional(weight("w", "VD"))},
       {exact("loss", "11"), optional(exact("dx", "ND"))},
       checkLoss},
  };
  for (const Signature &signature : table)
    if (kernel == signature.name)
      return &signature;
  return nullptr;
}

} // namespace mebp
