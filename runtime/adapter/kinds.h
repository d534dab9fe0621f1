// SPDX-License-Identifier: Apache-2.0
//
// Which kind of adapters (format/adapters.h) a bundle trains, and how one that is not LoRA's is written as LoRA, with
// PEFT's lora_A and lora_B, which other tools read. What is trained, which these need not give back bit for bit, lies
// beside them.
#pragma once

#include <vector>

#include "format/adapters.h"
#include "format/program.pb.h"
#include "runtime/core/safetensors.h"

namespace mebp {

// The default where the bundle trains none.
const format::AdapterTraits &kindOf(const format::Bundle &bundle);

// Of one kind, in a file of its own.
struct LoraForm {
  const char *name; // as in format/adapters.h
  // Of what is trained on one layer: lora_A and lora_B.
  std::vector<TensorHead> (*heads)(const format::Trainable &trainable);
  // Both, given its values.
  void (*factors)(const format::Trainable &trainable, const std::vector<float> &values, std::vector<float> &a,
                  std::vector<float> &b);
};
extern const LoraForm privateLoraForm;

// Null where what the bundle trains is LoRA itself, or the model.
const LoraForm *loraFormOf(const format::Bundle &bundle);

} // namespace mebp
