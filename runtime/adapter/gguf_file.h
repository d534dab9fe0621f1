// SPDX-License-Identifier: Apache-2.0
//
// llama.cpp's form of an adapter, a GGUF file: the bytes that python/mebp/adapters/gguf_file.py writes of the same one.
#pragma once

#include <string>

#include "runtime/core/status.h"
#include "runtime/train/engine.h"

namespace mebp {

Status saveAdapterGguf(const Engine &engine, const std::string &path);

} // namespace mebp
