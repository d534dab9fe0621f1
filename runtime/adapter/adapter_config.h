// SPDX-License-Identifier: Apache-2.0
//
// PEFT's adapter_config.json: what this runtime writes, and what it accepts.
#pragma once

#include <string>
#include <vector>

#include "format/program.pb.h"
#include "runtime/core/status.h"

namespace mebp {

std::string adapterConfig(const format::Bundle &bundle);

// Of a parameter of the model that is trained itself, what it is called there. PEFT saves a table that is tied to the
// head under both names; the embedding's, which lies deeper in the model, comes first.
std::vector<std::string> modelNamesOf(const format::Bundle &bundle, const format::Trainable &trainable);

// What a reader of these settings multiplies B A by.
double adapterScale(const format::Lora &lora);

// The parameters that an adapter's settings name beside modules; none where they cannot be read.
std::vector<std::string> targetParametersOf(const std::string &text);

// Refuses, by name, whatever would make PEFT compute something else than this bundle does.
Status checkAdapterConfig(const std::string &text, const format::Bundle &bundle);

} // namespace mebp
