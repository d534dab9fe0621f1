// SPDX-License-Identifier: Apache-2.0
//
// The trainables as a PEFT folder: adapter_model.safetensors and adapter_config.json.
#pragma once

#include "runtime/core/status.h"
#include "runtime/train/engine.h"

namespace mebp {

// Whether what the bundle trains is an adapter.
Status checkLora(const Engine &engine);
// Whether a trainable is the value head's, which lies in a file of its own.
bool isOfValueHead(std::string_view name);
Status saveAdapter(const Engine &engine, const std::string &folder);
// The most that saving it there adds to the disk: the new one beside the old.
uint64_t adapterDiskBytes(const Engine &engine, const std::string &folder);
// Changes the session only where the whole folder fits it.
Status loadAdapter(Engine &engine, const std::string &folder);

} // namespace mebp
