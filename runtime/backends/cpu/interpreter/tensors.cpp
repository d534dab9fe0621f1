// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/interpreter/tensors.h"

namespace mebp::cpu {

Tensor tensorOf(format::ElementType element, uint64_t rows, uint64_t columns) {
  Tensor tensor;
  tensor.storage = format::storageOf(element);
  tensor.rows = static_cast<int64_t>(rows);
  tensor.columns = static_cast<int64_t>(columns);
  tensor.stride = static_cast<int64_t>(format::strideOf(tensor.storage, columns));
  tensor.group = format::isQuantised(tensor.storage) ? static_cast<int32_t>(format::groupSize) : 0;
  return tensor;
}

int64_t bytesOf(const Tensor &tensor, int64_t columns) {
  return static_cast<int64_t>(format::bytesOf(tensor.storage, static_cast<uint64_t>(columns)));
}

void advanceRows(Tensor &tensor, int64_t rows) {
  tensor.data = static_cast<unsigned char *>(tensor.data) + rows * bytesOf(tensor, tensor.stride);
  if (tensor.group) {
    tensor.scales += rows * (tensor.stride / tensor.group);
    tensor.minima += rows * (tensor.stride / tensor.group);
  }
}

void advanceColumns(Tensor &tensor, int64_t columns) {
  tensor.data = static_cast<unsigned char *>(tensor.data) + bytesOf(tensor, columns);
}

} // namespace mebp::cpu
