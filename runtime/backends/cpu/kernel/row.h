// SPDX-License-Identifier: Apache-2.0
//
// How kernels read and write activations, which are F32 or BF16. Storage decides what is read and how a result is
// rounded, never the arithmetic between.
#pragma once

#include "format/half.h"
#include "runtime/backends/cpu/kernel/kernel.h"

#include <cstring>

namespace mebp::cpu {

// A row of an activation, from some column on. Elements are widened to f32 when read, and rounded to nearest even when
// written.
class Row {
public:
  explicit Row(float *values) : Row(values, Storage::F32, 0) {}
  Row(void *data, Storage storage, int64_t first) : data(data), first(first), bf16(storage == Storage::BF16) {}

  Row operator+(int64_t columns) const {
    Row rest = *this;
    rest.first += columns;
    return rest;
  }

  bool isBf16() const { return bf16; }
  float *floats() const { return static_cast<float *>(data) + first; }
  uint16_t *halves() const { return static_cast<uint16_t *>(data) + first; }

  float operator[](int64_t i) const { return bf16 ? format::bfloatToFloat(halves()[i]) : floats()[i]; }
  void set(int64_t i, float value) const {
    if (bf16)
      halves()[i] = format::floatToBfloat(value);
    else
      floats()[i] = value;
  }

private:
  void *data;
  int64_t first;
  bool bf16;
};

inline Row rowOf(const Tensor &tensor, int64_t row) { return {tensor.data, tensor.storage, row * tensor.stride}; }

// Of what is F32 in every program: gradients of parameters and all that the loss sums up.
inline float *floatRowOf(const Tensor &tensor, int64_t row) { return tensor.f32() + row * tensor.stride; }

// Writes row `row` of a weight, or `count` elements of it, dequantised, to out.
void dequantize(const Tensor &tensor, int64_t row, int64_t column, int64_t count, Row out);
inline void dequantizeRow(const Tensor &tensor, int64_t row, Row out) {
  dequantize(tensor, row, 0, tensor.columns, out);
}

// The rows may be one and the same.
inline void copyRow(Row from, Row to, int64_t count) {
  if (from.isBf16() != to.isBf16())
    for (int64_t i = 0; i < count; ++i)
      to.set(i, from[i]);
  else if (from.isBf16())
    std::memmove(to.halves(), from.halves(), count * sizeof(uint16_t));
  else
    std::memmove(to.floats(), from.floats(), count * sizeof(float));
}

} // namespace mebp::cpu
