// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/read_attributes.h"

#include <cmath>
#include <limits>

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
  if (name == "softmax")
    out = Score::Softmax;
  else if (name == "sigmoid")
    out = Score::Sigmoid;
  else if (name == "softmax_of_chosen")
    out = Score::SoftmaxOfChosen;
  else
    return failure(MEBP_UNSUPPORTED, "score '%s' is not known to this runtime; use a newer one", name.c_str());
  return Status();
}

static Status readAttribute(const format::Attribute &attribute, Attributes &out) {
  const std::string &name = attribute.name();
  float number = static_cast<float>(attribute.number());
  // An infinite fill is how a running maximum begins; anywhere else it can only be damage.
  if (name == "value")
    return out.value = number, Status();
  if (!std::isfinite(number))
    return failure(MEBP_CORRUPT, "attribute '%s' is not finite", name.c_str());
  if (name == "alpha")
    out.alpha = number;
  else if (name == "low_alpha")
    out.lowAlpha = number;
  else if (name == "beta")
    out.beta = number;
  else if (name == "epsilon")
    out.epsilon = number;
  else if (name == "weight_offset")
    out.weightOffset = number;
  else if (name == "scale")
    out.scale = number;
  else if (name == "softcap")
    out.softcap = number;
  else if (name == "shift")
    out.shift = number;
  else if (name == "lower")
    out.lower = number;
  else if (name == "upper")
    out.upper = number;
  else if (name == "inverse")
    out.inverse = number != 0;
  else if (name == "interleaved")
    out.interleaved = number != 0;
  else if (name == "narrow")
    out.narrow = number != 0;
  else if (name == "normalized")
    out.normalized = number != 0;
  else if (name == "approximation")
    out.activation = number != 0 ? Activation::GeluTanh : Activation::Gelu;
  else if (name == "head_dim")
    return readCount(attribute, out.headDim);
  else if (name == "heads")
    return readCount(attribute, out.heads);
  else if (name == "kv_heads")
    return readCount(attribute, out.kvHeads);
  else if (name == "window")
    return readCount(attribute, out.window);
  else if (name == "capacity")
    return readCount(attribute, out.capacity);
  else if (name == "offset")
    return readCount(attribute, out.offset);
  else if (name == "groups")
    return readCount(attribute, out.groups);
  else if (name == "top_groups")
    return readCount(attribute, out.topGroups);
  else if (name == "best_of_group")
    return readCount(attribute, out.bestOfGroup);
  else if (name == "score")
    return readScore(attribute.text(), out.score);
  else if (name == "activation")
    return readActivation(attribute.text(), out.activation);
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
