// SPDX-License-Identifier: Apache-2.0
//
// An adapter B M A (PrivateLoRA) as other tools read it: LoRA with PEFT's lora_A = A and lora_B = B M. A and B are
// drawn again from their seed, of which the bundle tells. M itself, which B M does not give back bit for bit, lies
// beside them.
#pragma once

#include <string>
#include <vector>

#include "format/program.pb.h"
#include "runtime/core/files.h"
#include "runtime/core/safetensors.h"

namespace mebp {

constexpr char privateTensorsName[] = "/private_lora.safetensors";

// Whether what it trains are such M.
bool isPrivateLora(const format::Bundle &bundle);

// What of A and B the file of M tells: two bundles that differ in nothing else may have others.
SafeMetadata metadataOfDrawn(const format::Bundle &bundle);
Status checkDrawn(const SafeMetadata &metadata, const format::Bundle &bundle);

// Those of the trainable M: lora_A and lora_B.
std::vector<TensorHead> headsOfLora(const format::Trainable &trainable);
// Writes both, given M.
void writeLora(const format::Trainable &trainable, const std::vector<float> &m, FileReplacement &file);

} // namespace mebp
