// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/read_attributes.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <variant>

namespace mebp {

static Status readCount(const format::Attribute &attribute, int32_t &out) {
  // Written so that a NaN fails, too: converting one to an integer is undefined.
  if (!(attribute.number() >= 0 && attribute.number() <= std::numeric_limits<int32_t>::max()) ||
      attribute.number() != std::floor(attribute.number()))
    return failure(MEBP_CORRUPT, "attribute '%s' is not a count", attribute.name().c_str());
  out = static_cast<int32_t>(attribute.number());
  return Status();
}

// Of a gate.
static Status readActivation(const std::string &name, Activation &out) {
  const format::ActivationTraits *traits = format::findActivation(name);
  if (!traits)
    return failure(MEBP_UNSUPPORTED, "activation '%s' is not known to this runtime; use a newer one", name.c_str());
  out = traits->activation;
  return Status();
}

static Status readScore(const std::string &name, Score &out) {
  const format::ScoreTraits *traits = format::findScore(name);
  if (!traits)
    return failure(MEBP_UNSUPPORTED, "score '%s' is not known to this runtime; use a newer one", name.c_str());
  out = traits->score;
  return Status();
}

// Attributes by their names in docs/kernels.md.
struct Named {
  std::string_view name;
  std::variant<float Attributes::*, int32_t Attributes::*, bool Attributes::*> field;
};
static constexpr Named numbers[] = {
    {"value", &Attributes::value},
    {"alpha", &Attributes::alpha},
    {"low_alpha", &Attributes::lowAlpha},
    {"beta", &Attributes::beta},
    {"epsilon", &Attributes::epsilon},
    {"weight_offset", &Attributes::weightOffset},
    {"scale", &Attributes::scale},
    {"threshold", &Attributes::threshold},
    {"softcap", &Attributes::softcap},
    {"shift", &Attributes::shift},
    {"lower", &Attributes::lower},
    {"upper", &Attributes::upper},
    {"inverse", &Attributes::inverse},
    {"interleaved", &Attributes::interleaved},
    {"narrow", &Attributes::narrow},
    {"normalized", &Attributes::normalized},
    {"head_dim", &Attributes::headDim},
    {"heads", &Attributes::heads},
    {"kv_heads", &Attributes::kvHeads},
    {"window", &Attributes::window},
    {"capacity", &Attributes::capacity},
    {"items", &Attributes::items},
    {"offset", &Attributes::offset},
    {"groups", &Attributes::groups},
    {"top_groups", &Attributes::topGroups},
    {"best_of_group", &Attributes::bestOfGroup},
    {"p", &Attributes::p},
    {"salt", &Attributes::salt},
};

static Status readNumber(const format::Attribute &attribute, const Named &named, Attributes &out) {
  if (const auto *count = std::get_if<int32_t Attributes::*>(&named.field))
    return readCount(attribute, out.*(*count));
  if (const auto *flag = std::get_if<bool Attributes::*>(&named.field))
    out.*(*flag) = attribute.number() != 0;
  else
    out.*(*std::get_if<float Attributes::*>(&named.field)) = static_cast<float>(attribute.number());
  return Status();
}

static Status readAttribute(const format::Attribute &attribute, Attributes &out) {
  const std::string &name = attribute.name();
  // An infinite fill is how a running maximum begins; anywhere else it can only be damage.
  if (name != "value" && !std::isfinite(static_cast<float>(attribute.number())))
    return failure(MEBP_CORRUPT, "attribute '%s' is not finite", name.c_str());
  for (const Named &named : numbers)
    if (name == named.name)
      return readNumber(attribute, named, out);
  if (name == "score")
    return readScore(attribute.text(), out.score);
  if (name == "activation")
    return readActivation(attribute.text(), out.activation);
  if (name == "approximation")
    out.activation = attribute.number() != 0 ? Activation::GeluTanh : Activation::Gelu;
  else if (name == "frequencies") {
    out.frequencies = attribute.numbers().data();
    out.frequencyCount = attribute.numbers_size();
  } else if (name == "slopes") {
    out.slopes = attribute.numbers().data();
    out.slopeCount = attribute.numbers_size();
  } else
    return failure(MEBP_UNSUPPORTED, "attribute '%s' is not known to this runtime; use a newer one", name.c_str());
  return Status();
}

Status readAttributes(const format::Kernel &kernel, Attributes &out) {
  out = Attributes();
  if (const format::ActivationTraits *traits = format::findActivationOf(kernel.name()))
    out.activation = traits->activation;
  for (const format::Attribute &attribute : kernel.attributes())
    if (Status status = readAttribute(attribute, out); !status.ok())
      return status.in("'" + kernel.name() + "'");
  return Status();
}

} // namespace mebp
