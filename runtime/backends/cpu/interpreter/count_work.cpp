// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/interpreter/count_work.h"

#include <array>

#include "format/kernels.h"
#include "format/rates.h"
#include "runtime/backends/cpu/interpreter/tensors.h"
#include "runtime/backends/cpu/kernel/operands.h"

namespace mebp::cpu {

using format::Cost;
using format::KernelSignature;
using format::Slot;

namespace {

// Of a kernel that is no product: flops for each element of an operand. An exponential, a division and a root count as
// one each, copies as none.
struct ElementFlops {
  std::string_view kernel;
  double flops;
  size_t operand = 0;
};
constexpr ElementFlops elementFlops[] = {
    {"embedding", 0},
    {"position_embedding", 0},
    {"repeat_row", 0},
    {"embedding_weight_gradient", 1, 1},
    {"position_embedding_weight_gradient", 1},
    {"bias_gradient", 1},
    {"rms_norm", 4},
    {"rms_norm_input_gradient", 9},
    {"rms_norm_weight_gradient", 5},
    {"layer_norm", 8},
    {"layer_norm_input_gradient", 14},
    {"layer_norm_weight_gradient", 8},
    {"rope", 3},
    {"append", 0},
    {"softplus", 4},
    {"softplus_gradient", 5},
    {"route", 5},
    {"route_gradient", 8},
    {"expert_load", 5},
    {"expert_load_gradient", 8},
    {"expert_sum", 2},
    {"expert_sum_gradient", 3},
    {"silu", 4},
    {"relu", 1},
    {"gelu", 8},
    {"softcap", 3},
    {"clamp", 2},
    {"silu_gradient", 8},
    {"relu_gradient", 1},
    {"gelu_gradient", 16},
    {"softcap_gradient", 5},
    {"clamp_gradient", 2},
    {"xielu", 6},
    {"xielu_gradient", 6},
    {"gated", 5},
    {"gated_gradient", 10},
    {"add", 1},
    {"multiply", 1},
    {"scale", 2},
    {"dropout", 2},
    {"split", 0},
    {"concat", 0},
    {"repeat", 0},
    {"repeat_gradient", 1},
    {"fill", 0},
    {"log_probability_tile", 5},
    {"log_probability_logits_gradient", 4},
    {"log_probability_from_tiles", 3, 6},
};

constexpr const ElementFlops *findElementFlops(std::string_view kernel) {
  for (const ElementFlops &each : elementFlops)
    if (each.kernel == kernel)
      return &each;
  return nullptr;
}

// A tap of a filter is a multiplication whose results are added up.
constexpr bool isConvolution(const KernelSignature &signature) {
  return std::string_view(signature.name).substr(0, 11) == "causal_conv";
}

constexpr bool everyKernelIsCounted() {
  for (const KernelSignature &signature : format::kernelSignatures)
    if ((signature.cost == Cost::Elements || signature.cost == Cost::LossTile) && !isConvolution(signature) &&
        !findElementFlops(signature.name))
      return false;
  return true;
}
static_assert(everyKernelIsCounted(), "a profile would say that it computes nothing");

// Of attention: pairs of a query and a key that it sees, and the rows of keys that are seen at all.
struct SeenKeys {
  double pairs = 0, rows = 0;
};

class Counter {
public:
  Counter(const KernelSignature &signature, const Call &call, const Context &context)
      : signature(signature), call(call), context(context) {
    for (size_t i = 0; i < std::min(call.operandCount, in.size()); ++i)
      in[i] = extentsOf(call.operands[i]);
    for (size_t i = 0; i < std::min(call.resultCount, out.size()); ++i)
      out[i] = extentsOf(call.results[i]);
    if (signature.cost == Cost::Attention || signature.cost == Cost::AttentionGradient)
      seen = countSeenKeys();
  }

  double flops() const {
    switch (signature.cost) {
    case Cost::Elements:
    case Cost::LossTile: {
      if (isConvolution(signature))
        return 2 * in[0].elements() * (call.resultCount > 1 ? in[1].columns : out[0].columns);
      const ElementFlops &each = *findElementFlops(signature.name);
      return each.flops * extentsOf(operandOf(call, each.operand)).elements();
    }
    default:
      return 2 * amounts()[1];
    }
  }

  double bytes() const {
    double sum = 0;
    for (size_t i = 0; i < call.operandCount; ++i) {
      const Slot &slot = slotAt(signature.operands, i);
      const bool goesOn = slot.accumulates != format::noSlot && slot.carry == format::Carry::No;
      if (!(goesOn && isState(slot))) // a state is not read where it is extended
        sum += bytesOf(call.operands[i], slot, true);
    }
    for (size_t i = 0; i < call.resultCount; ++i)
      sum += bytesOf(call.results[i], slotAt(signature.results, i), isAddedTo(i));
    return sum;
  }

private:
  static format::Extents extentsOf(const Tensor &tensor) {
    if (!tensor.present())
      return {};
    return {static_cast<double>(tensor.rows), static_cast<double>(tensor.columns)};
  }
  // Of a kernel with any number of parts the last slots are alike.
  static const Slot &slotAt(const Slot (&slots)[format::maximumSlots], size_t index) {
    static constexpr Slot part = format::slots::activation("part", "NF");
    return index < format::slotCount(slots) ? slots[index] : part;
  }

  format::Amounts amounts() const {
    return format::countAmounts(
        {signature, in.data(), call.operandCount, out.data(), call.resultCount, seen.pairs / in[0].rows});
  }

  SeenKeys countSeenKeys() const {
    const auto starts = static_cast<size_t>(format::findOperand(signature, "starts"));
    const Sight sight(call, context, starts, signature.causal);
    const Tensor &q = call.operands[0];
    SeenKeys found;
    int64_t item = -1, end = 0;
    for (int64_t row = 0; row < q.rows; ++row) {
      const Place place = placeOf(q, row, context);
      const Sight::Keys keys = sight.keysOf(row, place.position);
      if (place.item != item)
        item = place.item, end = 0;
      found.pairs += static_cast<double>(keys.end - keys.first);
      found.rows += static_cast<double>(std::max<int64_t>(0, keys.end - std::max(keys.first, end)));
      end = std::max(end, keys.end);
    }
    return found;
  }

  bool isState(const Slot &slot) const { return signature.ofState && slot.shape[0] == 'S'; }
  bool isAddedTo(size_t result) const {
    for (size_t i = 0; i < call.operandCount; ++i) {
      const Slot &slot = slotAt(signature.operands, i);
      if (slot.accumulates == static_cast<int8_t>(result) && call.operands[i].present())
        return true;
    }
    return false;
  }

  // Rows of tokens that the call computes.
  int64_t tokens() const {
    for (size_t i = 0; i < call.operandCount; ++i)
      if (slotAt(signature.operands, i).shape[0] == 'N')
        return call.operands[i].rows;
    return call.resultCount ? call.results[0].rows : 0;
  }

  // What a call touches of a tensor. `inPart`: it may be less than all rows.
  double rowsOf(const Tensor &tensor, const Slot &slot, bool inPart) const {
    const auto all = static_cast<double>(tensor.rows), most = static_cast<double>(tokens());
    switch (slot.shape[0]) {
    case 'S':
      if (seen.pairs > 0)
        return inPart ? seen.rows : all;
      if (isState(slot))
        return most;
      return signature.causal ? std::min(all, static_cast<double>(call.operands[0].firstRow) + most) : all;
    case 'V':
    case 'P':
      return inPart ? std::min(all, most) : all;
    case 'R':
      return signature.rule == format::Rule::Row ? 1 : all;
    case 'M':
      return inPart && signature.rule == format::Rule::Experts
                 ? all * std::min(1.0, amounts()[2] / (all * static_cast<double>(tensor.columns)))
                 : all;
    default:
      return all;
    }
  }
  double bytesOf(const Tensor &tensor, const Slot &slot, bool inPart) const {
    if (!tensor.present())
      return 0;
    const int64_t group = std::max(tensor.group, 1), columns = (tensor.columns + group - 1) / group * group;
    double row = static_cast<double>(cpu::bytesOf(tensor, columns));
    if (tensor.group) // scales and minima
      row += static_cast<double>(columns / group) * 2 * sizeof(uint16_t);
    return row * rowsOf(tensor, slot, inPart);
  }

  const KernelSignature &signature;
  const Call &call;
  const Context &context;
  std::array<format::Extents, format::maximumSlots> in{}, out{};
  SeenKeys seen;
};

} // namespace

Work countWork(const KernelSignature &signature, const Call &call, const Context &context) {
  const Counter counter(signature, call, context);
  Work work;
  work.flops = counter.flops();
  work.bytes = counter.bytes();
  return work;
}

} // namespace mebp::cpu
