// SPDX-License-Identifier: Apache-2.0
//
// docs/kernels.md as a table: what each kernel takes and gives, which memory it shares, what must not be rounded, and
// what its time is made of. The compiler verifies, places and prices its ops by it, the runtime checks programs by it.
#pragma once

#include "format/activations.h"
#include "format/kernel_signature.h"

namespace mebp::format {

namespace slots {

// A row of a weight as floats; and of heads, what keeps them at most 1,024 wide.
constexpr uint32_t widenedColumn = sizeof(float), headColumn = workspaceBytes / 1024;
// A tap of a convolution, of the channels of a task.
constexpr uint32_t convolutionColumn = 2 * 512 * sizeof(float);
// What a router has of an expert: its score, what it is chosen by, that of a group, and whether both are taken.
constexpr uint32_t expertRoom = 3 * sizeof(double) + 2;

inline constexpr KernelSignature table[] = {
    KernelSignature{
        "embedding", {ids("ids"), weight("w", "VC"), optional(exact("part", "N1"))}, {activation("y", "ND")}}
        .gathering()
        .under(Rule::Table)
        .withoutRoom(),
    KernelSignature{"position_embedding", {weight("w", "PD"), starts()}, {activation("y", "ND")}}
        .ofTokens()
        .withoutRoom(),
    KernelSignature{"repeat_row", {weight("w", "RD")}, {activation("y", "ND")}}.under(Rule::Row).withoutRoom(),
    KernelSignature{"embedding_weight_gradient",
                    {ids("ids"), activation("dy", "ND"), optional(accumulating(exact("accumulator", "VD"), 0))},
                    {exact("dw", "VD")}}
        .copying(1, 1)
        .withoutRoom(),
    KernelSignature{"position_embedding_weight_gradient",
                    {activation("dy", "ND"), optional(accumulating(exact("accumulator", "PD"), 0)), starts()},
                    {exact("dw", "PD")}}
        .ofTokens()
        .copying(1, 1)
        .withoutRoom(),
    KernelSignature{"linear",
                    {activation("x", "NK"), weight("w", "MK"), optional(weight("bias", "1M")),
                     optional(inPlace(activation("addend", "NM"))), optional(activation("low", "NR")),
                     optional(weight("low_weight", "MR"))},
                    {activation("y", "NM")}}
        .costing(Cost::Product)
        .under(Rule::LowRank)
        .copying(5)
        .needing(widenedColumn + sizeof(double), Per::WeightColumn),
    KernelSignature{"linear_input_gradient",
                    {activation("dy", "NM"), weight("w", "MK"), optional(inPlace(activation("addend", "NK"))),
                     optional(activation("low", "NR")), optional(weight("low_weight", "RK"))},
                    {activation("dx", "NK")}}
        .costing(Cost::Product)
        .under(Rule::LowRank)
        .copying(5)
        .needing(widenedColumn + sizeof(double), Per::WeightColumn),
    KernelSignature{
        "linear_weight_gradient",
        {activation("dy", "NM"), activation("x", "NK"), optional(accumulating(exact("accumulator", "MK"), 0))},
        {exact("dw", "MK")}}
        .costing(Cost::WeightGradient)
        .copying(3, 1)
        .withoutRoom(),
    KernelSignature{"bias_gradient",
                    {activation("dy", "NM"), optional(accumulating(exact("accumulator", "1M"), 0))},
                    {exact("db", "1M")}}
        .withoutRoom(),
    KernelSignature{"rms_norm", {inPlace(activation("x", "NF")), weight("w", "1G")}, {activation("y", "NF")}}
        .under(Rule::Groups)
        .needing(widenedColumn, Per::WeightColumn),
    KernelSignature{"rms_norm_input_gradient",
                    {activation("x", "NF"), weight("w", "1G"), inPlace(activation("dy", "NF"))},
                    {activation("dx", "NF")}}
        .under(Rule::Groups)
        .copying(3)
        .needing(widenedColumn, Per::WeightColumn),
    KernelSignature{
        "rms_norm_weight_gradient",
        {activation("x", "NF"), activation("dy", "NF"), optional(accumulating(exact("accumulator", "1G"), 0))},
        {exact("dw", "1G")}}
        .under(Rule::Groups)
        .copying(1, 2)
        .withoutRoom(),
    KernelSignature{"layer_norm",
                    {inPlace(activation("x", "NF")), weight("w", "1G"), optional(weight("b", "1G"))},
                    {activation("y", "NF")}}
        .under(Rule::Groups)
        .copying(2)
        .needing(2 * widenedColumn, Per::WeightColumn),
    KernelSignature{"layer_norm_input_gradient",
                    {activation("x", "NF"), weight("w", "1G"), inPlace(activation("dy", "NF"))},
                    {activation("dx", "NF")}}
        .under(Rule::Groups)
        .copying(3)
        .needing(2 * widenedColumn, Per::WeightColumn),
    KernelSignature{
        "layer_norm_weight_gradient",
        {activation("x", "NF"), activation("dy", "NF"), optional(accumulating(exact("accumulator", "1G"), 0))},
        {exact("dw", "1G")}}
        .under(Rule::Groups)
        .copying(1, 3)
        .withoutRoom(),
    KernelSignature{"rope", {inPlace(activation("x", "NF")), starts()}, {activation("y", "NF")}}
        .copying(2)
        .ofTokens()
        .under(Rule::Rotary)
        .needing(2 * sizeof(float), Per::Frequency),
    KernelSignature{"attention",
                    {activation("q", "NQ"), activation("k", "SU"), activation("v", "SW"), starts(),
                     optional(weight("sinks", "1H"))},
                    {activation("o", "NO"), exact("lse", "NH")}}
        .ofTokens()
        .inOrder()
        .orOfState()
        .costing(Cost::Attention)
        .under(Rule::Heads)
        .needing(headColumn, Per::HeadColumn),
    KernelSignature{"attention_gradient",
                    {activation("q", "NQ"), activation("k", "SU"), activation("v", "SW"), activation("o", "NO"),
                     exact("lse", "NH"), activation("do", "NO"),
                     optional(accumulating(exact("dk_accumulator", "SU"), 1)),
                     optional(accumulating(exact("dv_accumulator", "SW"), 2)), starts()},
                    {activation("dq", "NQ"), exact("dk", "SU"), exact("dv", "SW")}}
        .ofTokens()
        .inOrder()
        .costing(Cost::AttentionGradient)
        .under(Rule::Heads)
        .needing(headColumn, Per::HeadColumn),
    KernelSignature{"bidirectional_attention",
                    {activation("q", "NQ"), activation("k", "SU"), activation("v", "SW"), starts(), ends()},
                    {activation("o", "NO"), exact("lse", "NH")}}
        .ofTokens()
        .costing(Cost::Attention)
        .under(Rule::Heads)
        .needing(headColumn, Per::HeadColumn),
    KernelSignature{"bidirectional_attention_gradient",
                    {activation("q", "NQ"), activation("k", "SU"), activation("v", "SW"), activation("o", "NO"),
                     exact("lse", "NH"), activation("do", "NO"),
                     optional(accumulating(exact("dk_accumulator", "SU"), 1)),
                     optional(accumulating(exact("dv_accumulator", "SW"), 2)), starts(), ends()},
                    {activation("dq", "NQ"), exact("dk", "SU"), exact("dv", "SW")}}
        .ofTokens()
        .costing(Cost::AttentionGradient)
        .under(Rule::Heads)
        .needing(headColumn, Per::HeadColumn),
    KernelSignature{
        "append", {accumulating(activation("state", "SU"), 0), activation("rows", "NU")}, {activation("result", "SU")}}
        .ofTokens()
        .inOrder()
        .orOfState()
        .under(Rule::State)
        .withoutRoom(),
    KernelSignature{"causal_conv",
                    {activation("x", "NC"), exact("w", "CW"), optional(weight("bias", "1C")),
                     carried(exact("state", "KC"), 1), starts()},
                    {activation("y", "NC"), exact("next", "KC")}}
        .ofTokens()
        .under(Rule::Convolution)
        .copying(3, 1)
        .needing(convolutionColumn, Per::WeightColumn),
    KernelSignature{
        "causal_conv_input_gradient",
        {activation("dy", "NC"), exact("w", "CW"), carried(exact("owed", "KC"), 1, Carry::Backwards), starts()},
        {activation("dx", "NC"), exact("next", "KC")}}
        .ofTokens()
        .under(Rule::Convolution)
        .copying(3, 1)
        .needing(convolutionColumn, Per::WeightColumn),
    KernelSignature{"causal_conv_weight_gradient",
                    {activation("dy", "NC"), activation("x", "SC"),
                     optional(accumulating(exact("accumulator", "CW"), 0)), starts()},
                    {exact("dw", "CW")}}
        .ofTokens()
        .inOrder()
        .copying(2, 3)
        .withoutRoom(),
    KernelSignature{"softplus",
                    {activation("x", "NF"), optional(exact("bias", "1F")), optional(exact("rate", "1G"))},
                    {exact("y", "NF")}}
        .under(Rule::Rates)
        .withoutRoom(),
    KernelSignature{
        "softplus_gradient",
        {activation("x", "NF"), exact("dy", "NF"), optional(exact("bias", "1F")), optional(exact("rate", "1G"))},
        {activation("dx", "NF")}}
        .under(Rule::Rates)
        .withoutRoom(),
    KernelSignature{"gated_delta",
                    {activation("q", "NQ"), activation("k", "NQ"), activation("v", "NU"), exact("g", "NH"),
                     activation("beta", "NH"), carried(exact("state", "RT"), 1), starts()},
                    {activation("o", "NU"), exact("next", "RT"), optional(exact("marks", "ZT"))}}
        .ofTokens()
        .costing(Cost::Recurrence)
        .under(Rule::Delta)
        .copying(0)
        .needing(2 * sizeof(double), Per::StateElement),
    KernelSignature{"gated_delta_gradient",
                    {activation("q", "NQ"), activation("k", "NQ"), activation("v", "NU"), exact("g", "NH"),
                     activation("beta", "NH"), exact("marks", "ZT"), activation("do", "NU"),
                     carried(exact("dstate", "RT"), 5, Carry::Backwards), starts()},
                    {exact("dq", "NQ"), exact("dk", "NQ"), activation("dv", "NU"), exact("dg", "NH"),
                     activation("dbeta", "NH"), exact("next", "RT")}}
        .ofTokens()
        .costing(Cost::Recurrence)
        .under(Rule::Delta)
        .copying(0)
        .needing(2 * sizeof(double), Per::StateElement),
    KernelSignature{
        "route", {exact("logits", "NE"), optional(weight("bias", "1E"))}, {exact("weights", "NJ"), exact("ids", "NJ")}}
        .under(Rule::Route)
        .copying(1, 5)
        .needing(expertRoom, Per::Expert),
    KernelSignature{"route_gradient",
                    {exact("logits", "NE"), exact("ids", "NJ"), exact("dweights", "NJ")},
                    {exact("dlogits", "NE")}}
        .under(Rule::Route)
        .copying(4)
        .needing(expertRoom, Per::Expert),
    KernelSignature{"expert_load",
                    {exact("logits", "NE"), exact("ids", "NJ"), exact("counted", "N1"),
                     optional(accumulating(exact("scores_accumulator", "1E"), 0)),
                     optional(accumulating(exact("counts_accumulator", "1E"), 1))},
                    {exact("scores", "1E"), exact("counts", "1E")}}
        .copying(1, 4)
        .needing(expertRoom, Per::Expert),
    KernelSignature{"expert_load_gradient",
                    {exact("logits", "NE"), exact("counted", "N1"), exact("dscores", "1E")},
                    {exact("dlogits", "NE")}}
        .copying(4)
        .needing(expertRoom, Per::Expert),
    KernelSignature{"expert_linear",
                    {activation("x", "NX"), weight("w", "MK"), exact("ids", "NJ"),
                     optional(inPlace(activation("addend", "NY"))), optional(weight("bias", "1B"))},
                    {activation("y", "NY")}}
        .costing(Cost::ExpertProduct)
        .under(Rule::Experts)
        .copying(3, 1)
        .needing(widenedColumn + sizeof(double), Per::WeightColumn),
    KernelSignature{
        "expert_linear_input_gradient",
        {activation("dy", "NY"), weight("w", "MK"), exact("ids", "NJ"), optional(inPlace(activation("addend", "NX")))},
        {activation("dx", "NX")}}
        .costing(Cost::ExpertProduct)
        .under(Rule::Experts)
        .copying(3, 1)
        .needing(widenedColumn + sizeof(double), Per::WeightColumn),
    KernelSignature{
        "expert_linear_shared_gradient",
        {activation("dy", "NY"), weight("w", "MK"), exact("ids", "NJ"), optional(inPlace(exact("addend", "NX")))},
        {exact("dx", "NX")}}
        .costing(Cost::ExpertProduct)
        .under(Rule::Experts)
        .copying(3, 1)
        .needing(widenedColumn + sizeof(double), Per::WeightColumn),
    KernelSignature{"expert_linear_weight_gradient",
                    {activation("dy", "NY"), activation("x", "NX"), exact("ids", "NJ"),
                     optional(accumulating(exact("accumulator", "MK"), 0))},
                    {exact("dw", "MK")}}
        .costing(Cost::ExpertWeightGradient)
        .under(Rule::Experts)
        .copying(3, 1)
        .withoutRoom(),
    KernelSignature{"expert_sum", {activation("y", "NY"), exact("weights", "NJ")}, {activation("out", "ND")}}
        .under(Rule::ExpertSum)
        .copying(2, 1)
        .withoutRoom(),
    KernelSignature{"expert_sum_gradient",
                    {inPlace(activation("y", "NY")), exact("weights", "NJ"), activation("dout", "ND")},
                    {activation("dy", "NY"), exact("dweights", "NJ")}}
        .under(Rule::ExpertSum)
        .copying(3)
        .withoutRoom(),
    elementwise("silu"),
    elementwise("relu"),
    elementwise("gelu"),
    elementwise("softcap"),
    elementwise("clamp"),
    elementwiseGradient("silu_gradient"),
    elementwiseGradient("relu_gradient"),
    elementwiseGradient("gelu_gradient"),
    elementwiseGradient("softcap_gradient"),
    elementwiseGradient("clamp_gradient"),
    KernelSignature{"xielu",
                    {inPlace(activation("x", "NF")), weight("alpha_p", "11"), weight("alpha_n", "11")},
                    {activation("y", "NF")}}
        .copying(3)
        .withoutRoom(),
    KernelSignature{
        "xielu_gradient",
        {activation("x", "NF"), inPlace(activation("dy", "NF")), weight("alpha_p", "11"), weight("alpha_n", "11")},
        {activation("dx", "NF")}}
        .copying(3)
        .withoutRoom(),
    KernelSignature{"gated", {activation("gate", "NF"), inPlace(activation("up", "NF"))}, {activation("y", "NF")}}
        .withoutRoom(),
    KernelSignature{"gated_gradient",
                    {inPlace(activation("gate", "NF")), activation("up", "NF"), inPlace(activation("dy", "NF"), 1)},
                    {activation("dgate", "NF"), activation("dup", "NF")}}
        .copying(3)
        .withoutRoom(),
    binary("add"),
    binary("multiply"),
    elementwise("scale"),
    elementwise("dropout").ofTokens().under(Rule::Dropout).copying(2),
    KernelSignature{"split", {activation("x", "NF")}, {}}.withAnyNumberOf(Parts::Results).withoutRoom(),
    KernelSignature{"concat", {}, {activation("y", "NF")}}.withAnyNumberOf(Parts::Operands).withoutRoom(),
    KernelSignature{"repeat", {activation("x", "NF")}, {activation("y", "NG")}}.under(Rule::Repeat).withoutRoom(),
    KernelSignature{"repeat_gradient", {activation("dy", "NG")}, {activation("dx", "NF")}}
        .under(Rule::Repeat)
        .withoutRoom(),
    KernelSignature{"fill", {}, {activation("y", "NF")}}.withoutRoom(),
    KernelSignature{"log_probability_tile",
                    {inPlace(exact("logits", "NC")), labels("labels"), accumulating(exact("max", "N1"), 1),
                     accumulating(exact("sum", "N1"), 2), accumulating(exact("weighted", "N1"), 3),
                     accumulating(exact("target", "N1"), 4), optional(accumulating(exact("accumulator", "ND"), 5))},
                    {activation("p", "NC"), exact("max", "N1"), exact("sum", "N1"), exact("weighted", "N1"),
                     exact("target", "N1"), optional(exact("accumulator", "ND"))}}
        .costing(Cost::LossTile)
        .copying(3)
        .withoutRoom(),
    KernelSignature{"log_probability_logits_gradient",
                    {inPlace(exact("logits", "NC")), labels("labels"), exact("max", "N1"), exact("sum", "N1"),
                     exact("target", "N1"), exact("coefficients", "N1"), optional(exact("weighted", "N1")),
                     optional(exact("entropy_coefficients", "N1"))},
                    {exact("dlogits", "NC")}}
        .costing(Cost::LossTile)
        .under(Rule::Entropy)
        .withoutRoom(),
    KernelSignature{"log_probability_from_tiles",
                    {labels("labels"), exact("max", "N1"), exact("sum", "N1"), exact("weighted", "N1"),
                     exact("target", "N1"), optional(exact("coefficients", "N1")),
                     optional(inPlace(exact("accumulator", "ND"), 2)), optional(weight("w", "VD"))},
                    {exact("log_probabilities", "N1"), exact("entropy", "N1"), optional(exact("dx", "ND"))}}
        .under(Rule::Loss)
        .gathering()
        .copying(2)
        .needing(widenedColumn, Per::WeightColumn),
};

} // namespace slots

inline constexpr auto &kernelSignatures = slots::table;

constexpr bool everyKernelSaysItsRoom() {
  for (const KernelSignature &signature : kernelSignatures)
    if (signature.roomPer == Per::Unstated)
      return false;
  return true;
}
static_assert(everyKernelSaysItsRoom(), "a kernel without it could write beyond its workspace");

// Null where no kernel has that name.
constexpr const KernelSignature *findSignature(std::string_view kernel) {
  for (const KernelSignature &signature : kernelSignatures)
    if (kernel == signature.name)
      return &signature;
  return nullptr;
}

// How many slots of the signature there are.
constexpr size_t slotCount(const Slot (&slots)[maximumSlots]) {
  size_t count = 0;
  while (count < maximumSlots && slots[count].name)
    ++count;
  return count;
}

// Whether it is y = f(x), element by element, and NAME_gradient its pullback, of x and dy: an activation that has no
// parameters.
constexpr bool isActivation(const KernelSignature &signature) {
  if (slotCount(signature.operands) != 1 || slotCount(signature.results) != 1)
    return false;
  for (const KernelSignature &other : kernelSignatures)
    if (std::string_view(other.name) != signature.name && forwardOf(other.name) == signature.name)
      return slotCount(other.operands) == 2 && slotCount(other.results) == 1;
  return false;
}

// The activation with a kernel of its own that a node of ONNX is; null where the node is none, or gates alone.
constexpr const ActivationTraits *findActivationOfNode(std::string_view node) {
  for (const ActivationTraits &traits : activations)
    if (node == traits.node && findSignature(traits.name))
      return &traits;
  return nullptr;
}

// The operand of that name, or noSlot.
constexpr int findOperand(const KernelSignature &signature, std::string_view name) {
  for (size_t i = 0; i < slotCount(signature.operands); ++i)
    if (name == signature.operands[i].name)
      return static_cast<int>(i);
  return noSlot;
}

// The weight of which a kernel reads only the rows that its first operand names: what covers the vocabulary. Or noSlot.
constexpr int tableOf(const KernelSignature &signature) {
  for (size_t i = 0; i < slotCount(signature.operands); ++i)
    if (signature.operands[i].type == SlotType::Weight && signature.operands[i].shape[0] == 'V')
      return static_cast<int>(i);
  return noSlot;
}

// Where the weights in memory are limited, what gathers takes so many rows at a time.
constexpr int64_t gatheredRows = 64;

} // namespace mebp::format
