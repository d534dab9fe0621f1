// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format: the header's length in eight bytes, a JSON header, then the tensors' bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/files.h"
#include "runtime/core/status.h"

namespace mebp {

struct SafeTensor {
  std::string name;
  std::string type; // F32, F16, BF16, ...
  std::vector<uint64_t> shape;
  const unsigned char *data = nullptr;
  uint64_t bytes = 0;

  uint64_t elements() const;
};

// The tensors of a mapped file; they point into it.
Status readSafetensors(const MappedFile &file, std::vector<SafeTensor> &out);

// Writes the tensor's elements as f32. Its type must be one that `canWiden`.
bool canWiden(const SafeTensor &tensor);
void widen(const SafeTensor &tensor, float *out);

// The head of a file with these f32 tensors (rows x columns), whose bytes follow in the same order.
struct MatrixName {
  std::string name;
  uint64_t rows = 0, columns = 0;
};
std::string safetensorsHead(const std::vector<MatrixName> &matrices);

} // namespace mebp
