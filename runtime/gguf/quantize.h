// SPDX-License-Identifier: Apache-2.0
//
// Rows of f32 as blocks of a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mebp::gguf {

struct BlockType {
  std::string_view name;
  size_t bytes; // of 256 numbers
  void (*quantize)(const float *values, size_t blocks, uint8_t *out);
};

// By ggml's name, as Q4_K; null where no such type is here.
const BlockType *findBlockType(std::string_view name);

// On `threads` threads; the bytes do not depend on how many.
void quantize(const BlockType &type, const float *values, size_t blocks, uint8_t *out, unsigned threads);

} // namespace mebp::gguf
