// SPDX-License-Identifier: Apache-2.0
//
// What a CPU kernel sees: tensors, attributes, a thread pool and scratch memory. docs/kernels.md defines each kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <pthreadpool.h>

#include "format/kernels.h"

namespace mebp::cpu {

enum class Storage : uint8_t { F32, BF16, I32, Int4, Int8 };

// A row-major matrix, or a slice of one. Activations are F32 or BF16 (row.h), and `stride` counts elements between
// rows. Quantised weights
// have rows of whole groups: element (r, c) is scales[g] * code + minima[g] with g = r * groups + c / group (both
// pointers already at this tensor's first row), its code in byte data, at r * stride / 2 (Int4) or r * stride (Int8) +
// c, low nibble first.
struct Tensor {
  void *data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;      // elements from row to row; for Int4 and Int8: codes, a multiple of `group`
  int64_t firstRow = 0;    // the token (or vocabulary) row that row 0 is
  int64_t firstColumn = 0; // the vocabulary row that column 0 is: logits tiles
  Storage storage = Storage::F32;
  int32_t group = 0;
  const uint16_t *scales = nullptr; // f16
  const uint16_t *minima = nullptr; // f16

  bool present() const { return data != nullptr; }
  float *f32() const { return static_cast<float *>(data); }
  int32_t *i32() const { return static_cast<int32_t *>(data); }
};

using format::maximumLowRank;
using format::workspaceBytes;

enum class Activation : uint8_t { Silu, Gelu, GeluTanh, Relu };

// Every attribute that a kernel may have, parsed once when the program is loaded.
struct Attributes {
  float alpha = 1.0f;
  float lowAlpha = 1.0f;
  float epsilon = 0.0f;
  float weightOffset = 0.0f;
  float scale = 1.0f;
  float value = 0.0f;
  int32_t headDim = 0;
  int32_t heads = 0;
  int32_t kvHeads = 0;
  int32_t window = 0;
  bool inverse = false;
  bool narrow = false;
  Activation activation = Activation::Silu;
  const float *frequencies = nullptr;
  int32_t frequencyCount = 0;
};

struct Bf16Products;

struct Context {
  pthreadpool_t pool = nullptr;       // null: run on the calling thread
  unsigned char *workspace = nullptr; // thread i may use [i * workspaceBytes, (i + 1) * workspaceBytes), aligned
  const Bf16Products *bf16 = nullptr; // multiplies factors of bf16; null: they are widened
  int64_t batch = 0;                  // live, of this step
  int64_t sequence = 0;               // live, of this step
};

// Operands and results in docs/kernels.md's order; an absent optional tensor has no data. A kernel reads its sizes
// from the tensors' live rows and columns, never fails and never allocates: the loader has checked the program.
struct Call {
  const Tensor *operands = nullptr;
  size_t operandCount = 0;
  const Tensor *results = nullptr;
  size_t resultCount = 0;
  Attributes attributes;
};

using Kernel = void (*)(const Call &call, const Context &context);

enum class Family { Reference, Vector };

// The kernel of that name, or null. Vector falls back to the reference kernel where it has none of its own.
Kernel findKernel(std::string_view name, Family family);

// Writes `count` elements of a row of a weight, dequantised, to out; the one definition of the storage formats.
void dequantize(const Tensor &tensor, int64_t row, int64_t column, int64_t count, float *out);
inline void dequantizeRow(const Tensor &tensor, int64_t row, float *out) {
  dequantize(tensor, row, 0, tensor.columns, out);
}

} // namespace mebp::cpu
