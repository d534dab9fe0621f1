// SPDX-License-Identifier: Apache-2.0
//
// What a CPU kernel sees: tensors, attributes, a thread pool and scratch memory. docs/kernels.md defines each kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/kernels.h"
#include "format/storage.h"
#include "runtime/exec/attributes.h"
#include "runtime/exec/dropout.h"
#include "runtime/exec/kernel_table.h"

namespace mebp::cpu {

using format::Storage;

// A row-major matrix, or a slice of one. Activations are F32 or BF16 (row.h). Quantised weights have rows of whole
// groups: element (r, c) is scales[g] * code + minima[g] with g = r * groups + c / group (both pointers already at this
// tensor's first row), its code in byte r * stride + c (Int8) or, two a byte and the low nibble first, in byte
// (r * stride + c) / 2 (Int4).
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

struct Bf16Products;
class ThreadPool;
class ThreadTimes;

struct Context {
  ThreadPool *pool = nullptr;         // null: run on the calling thread
  unsigned char *workspace = nullptr; // thread i may use [i * workspaceBytes, (i + 1) * workspaceBytes), aligned
  const Bf16Products *bf16 = nullptr; // multiplies factors of bf16; null: they are widened
  int64_t sequence = 0;               // live, of this step
  int64_t position = 0;               // of the first of them
  float logitScale = 1;               // Run::logitScale
  bool isDecoding = false;            // Run::isDecoding
  Dropout dropout;                    // Run::dropout
  ThreadTimes *times = nullptr;       // null: nobody asks
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
using NamedKernel = NamedKernelOf<Kernel>;
using KernelTable = KernelTableOf<Kernel>;

// Writes `count` elements of a row of a weight, dequantised, to out.
void dequantize(const Tensor &tensor, int64_t row, int64_t column, int64_t count, float *out);
inline void dequantizeRow(const Tensor &tensor, int64_t row, float *out) {
  dequantize(tensor, row, 0, tensor.columns, out);
}

} // namespace mebp::cpu
