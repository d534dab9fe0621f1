// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format: the header's length in eight bytes, a JSON header, then the tensors' bytes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
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

// Pairs of strings.
using SafeMetadata = std::vector<std::pair<std::string, std::string>>;

// The tensors of a mapped file; they point into it. Refusals end with the advice.
Status readSafetensors(const MappedFile &file, const char *advice, std::vector<SafeTensor> &out,
                       SafeMetadata *metadata = nullptr);

// Writes the tensor's elements as f32. Its type must be one that `canWiden`.
bool canWiden(const SafeTensor &tensor);
void widen(const SafeTensor &tensor, float *out);

// The head of a file with these tensors, whose bytes follow in the same order.
struct TensorHead {
  std::string name;
  const char *type;
  uint64_t elementBytes;
  std::vector<uint64_t> shape;
};
std::string safetensorsHead(const std::vector<TensorHead> &tensors, const SafeMetadata &metadata);

} // namespace mebp
