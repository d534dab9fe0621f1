// SPDX-License-Identifier: Apache-2.0
//
// What writing a GGUF file needs of C++: its blocks of 256 numbers.
#include "module.h"

#include <nanobind/stl/string.h>

#include <string>

#include "platform/platform.h"
#include "runtime/gguf/blocks.h"
#include "runtime/gguf/quantize.h"

namespace mebp::python {

using ByteResult = nb::ndarray<nb::numpy, uint8_t>;

static ByteResult quantizeRows(const FloatArray &values, const std::string &type) {
  const gguf::BlockType *found = gguf::findBlockType(type);
  if (!found)
    throw nb::value_error(("no blocks of type '" + type + "'").c_str());
  const size_t rank = values.ndim(), columns = rank ? values.shape(rank - 1) : 0;
  if (!columns || columns % gguf::blockNumbers)
    throw nb::value_error("rows of such blocks are multiples of 256 numbers");
  const size_t blocks = values.size() / gguf::blockNumbers;
  std::vector<size_t> shape(rank);
  for (size_t axis = 0; axis < rank; ++axis)
    shape[axis] = values.shape(axis);
  shape.back() = columns / gguf::blockNumbers * found->bytes;
  std::unique_ptr<uint8_t[]> memory(new uint8_t[blocks * found->bytes]);
  {
    nb::gil_scoped_release unlock;
    gguf::quantize(*found, values.data(), blocks, memory.get(), platform::availableThreads());
  }
  nb::capsule owner(memory.get(), [](void *pointer) noexcept { delete[] static_cast<uint8_t *>(pointer); });
  return ByteResult(memory.release(), rank, shape.data(), owner);
}

void bindGguf(nb::module_ &module) {
  module.def("quantize_rows", &quantizeRows, nb::arg("values"), nb::arg("type"),
             "Rows of f32 [..., columns] as the blocks of GGUF's Q4_K, Q5_K or Q6_K: bytes [..., bytes of a row].");
}

} // namespace mebp::python
