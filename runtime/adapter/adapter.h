// SPDX-License-Identifier: Apache-2.0
//
// The trainables as a PEFT folder: adapter_model.safetensors and adapter_config.json.
#pragma once

#include "runtime/core/status.h"
#include "runtime/train/engine.h"

namespace mebp {

// Whether what the bundle trains is an adapter.
Status checkLora(const Engine &engine);
Status saveAdapter(const Engine &engine, const std::string &folder);
// The most that saving it there adds to the disk: the new one beside the old.
uint64_t adapterDiskBytes(const Engine &engine, const std::string &folder);
// Changes the session only where the whole folder fits it.
Status loadAdapter(Engine &engine, const std::string &folder);

} // namespace mebp
