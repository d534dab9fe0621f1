// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/tensors.h"

#include "format/container.h"
#include "runtime/bundle/storage.h"

namespace mebp {

static cpu::Storage storageOf(format::ElementType element) {
  switch (element) {
  case format::BF16:
    return cpu::Storage::BF16;
  case format::I32:
    return cpu::Storage::I32;
  case format::INT4:
    return cpu::Storage::Int4;
  case format::INT8:
    return cpu::Storage::Int8;
  default:
    return cpu::Storage::F32;
  }
}

cpu::Tensor tensorOf(format::ElementType element, uint64_t rows, uint64_t columns) {
  cpu::Tensor tensor;
  tensor.rows = static_cast<int64_t>(rows);
  tensor.columns = static_cast<int64_t>(columns);
  tensor.stride = static_cast<int64_t>(storedStride(element, columns));
  tensor.storage = storageOf(element);
  tensor.group = isQuantised(element) ? static_cast<int32_t>(format::groupSize) : 0;
  return tensor;
}

// Bits, since two int4 codes share a byte.
static int64_t bitsOf(cpu::Storage storage) {
  switch (storage) {
  case cpu::Storage::Int4:
    return 4;
  case cpu::Storage::Int8:
    return 8;
  case cpu::Storage::BF16:
    return 16;
  default:
    return 32;
  }
}

int64_t bytesOf(const cpu::Tensor &tensor, int64_t columns) { return columns * bitsOf(tensor.storage) / 8; }

void advanceRows(cpu::Tensor &tensor, int64_t rows) {
  tensor.data = static_cast<unsigned char *>(tensor.data) + rows * bytesOf(tensor, tensor.stride);
  if (tensor.group) {
    tensor.scales += rows * (tensor.stride / tensor.group);
    tensor.minima += rows * (tensor.stride / tensor.group);
  }
}

void advanceColumns(cpu::Tensor &tensor, int64_t columns) {
  tensor.data = static_cast<unsigned char *>(tensor.data) + bytesOf(tensor, columns);
}

} // namespace mebp
