// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/signatures.h"

namespace mebp {

static constexpr Slot f32(const char *name, const char *shape) { return {name, shape}; }
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

static Status checkLinear(const KernelShape &shape) { return checkRow(shape, 'K'); }
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

const Signature *findSignature(const std::string &kernel) {
  static const Signature table[] = {
      {"embedding", {ids("ids"), weight("w", "VD")}, {f32("y", "ND")}},
      {"position_embedding", {weight("w", "PD")}, {f32("y", "ND")}, nullptr, true},
      {"linear",
       {f32("x", "NK"), weight("w", "MK"), optional(weight("bias", "1M")), optional(f32("addend", "NM"))},
       {f32("y", "NM")},
       checkLinear},
      {"linear_input_gradient",
       {f32("dy", "NM"), weight("w", "MK"), optional(f32("addend", "NK"))},
       {f32("dx", "NK")},
       checkLinear},
      {"linear_weight_gradient",
       {f32("dy", "NM"), f32("x", "NK"), optional(accumulating(f32("accumulator", "MK"), 0))},
       {f32("dw", "MK")}},
      {"rms_norm", {f32("x", "NF"), weight("w", "1G")}, {f32("y", "NF")}, checkGroups},
      {"rms_norm_input_gradient", {f32("x", "NF"), weight("w", "1G"), f32("dy", "NF")}, {f32("dx", "NF")}, checkGroups},
      {"layer_norm", {f32("x", "NF"), weight("w", "1F"), optional(weight("b", "1F"))}, {f32("y", "NF")}, checkFeatures},
      {"layer_norm_input_gradient",
       {f32("x", "NF"), weight("w", "1F"), f32("dy", "NF")},
       {f32("dx", "NF")},
       checkFeatures},
      {"rope", {f32("x", "NF")}, {f32("y", "NF")}, checkRope, true},
      {"attention",
       {f32("q", "NQ"), f32("k", "SU"), f32("v", "SU")},
       {f32("o", "NQ"), f32("lse", "NH")},
       checkHeads,
       true},
      {"attention_gradient",
       {f32("q", "NQ"), f32("k", "SU"), f32("v", "SU"), f32("o", "NQ"), f32("lse", "NH"), f32("do", "NQ"),
        optional(accumulating(f32("dk_accumulator", "SU"), 1)), optional(accumulating(f32("dv_accumulator", "SU"), 2))},
       {f32("dq", "NQ"), f32("dk", "SU"), f32("dv", "SU")},
       checkHeads,
       true},
      {"silu", {f32("x", "NF")}, {f32("y", "NF")}},
      {"relu", {f32("x", "NF")}, {f32("y", "NF")}},
      {"gelu", {f32("x", "NF")}, {f32("y", "NF")}},
      {"silu_gradient", {f32("x", "NF"), f32("dy", "NF")}, {f32("dx", "NF")}},
      {"relu_gradient", {f32("x", "NF"), f32("dy", "NF")}, {f32("dx", "NF")}},
      {"gelu_gradient", {f32("x", "NF"), f32("dy", "NF")}, {f32("dx", "NF")}},
      {"gated", {f32("gate", "NF"), f32("up", "NF")}, {f32("y", "NF")}},
      {"gated_gradient", {f32("gate", "NF"), f32("up", "NF"), f32("dy", "NF")}, {f32("dgate", "NF"), f32("dup", "NF")}},
      {"add", {f32("a", "NF"), f32("b", "NF")}, {f32("y", "NF")}},
      {"multiply", {f32("a", "NF"), f32("b", "NF")}, {f32("y", "NF")}},
      {"scale", {f32("x", "NF")}, {f32("y", "NF")}},
      {"split", {f32("x", "NF")}, {}, nullptr, false, Parts::Results},
      {"concat", {}, {f32("y", "NF")}, nullptr, false, Parts::Operands},
      {"fill", {}, {f32("y", "NF")}},
      {"cross_entropy_tile",
       {f32("logits", "NC"), labels("labels"), accumulating(f32("max", "N1"), 1), accumulating(f32("sum", "N1"), 2),
        accumulating(f32("target", "N1"), 3), optional(accumulating(f32("accumulator", "ND"), 4))},
       {f32("p", "NC"), f32("max", "N1"), f32("sum", "N1"), f32("target", "N1"), optional(f32("accumulator", "ND"))}},
      {"cross_entropy",
       {labels("labels"), f32("max", "N1"), f32("sum", "N1"), f32("target", "N1"), f32("scale", "11"),
        accumulating(f32("loss_accumulator", "11"), 0), optional(f32("accumulator", "ND")),
        optional(weight("w", "VD"))},
       {f32("loss", "11"), optional(f32("dx", "ND"))},
       checkLoss},
  };
  for (const Signature &signature : table)
    if (kernel == signature.name)
      return &signature;
  return nullptr;
}

} // namespace mebp
