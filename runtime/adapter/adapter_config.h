// SPDX-License-Identifier: Apache-2.0
//
// PEFT's adapter_config.json: what this runtime writes, and what it accepts.
#pragma once

#include <string>

#include "format/program.pb.h"
#include "runtime/core/status.h"

namespace mebp {

std::string adapterConfig(const format::Bundle &bundle);

// "layers.0.q_proj" of PEFT's key "base_model.model.layers.0.q_proj.lora_A.weight"; empty for any other tensor.
std::string adaptedLayer(const std::string &key);

// Refuses, by name, whatever would make PEFT compute something else than this bundle does.
Status checkAdapterConfig(const std::string &text, const format::Bundle &bundle);

} // namespace mebp
