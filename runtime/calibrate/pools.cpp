// SPDX-License-Identifier: Apache-2.0
#include "runtime/calibrate/pools.h"

#include <cstring>

#include "format/alignment.h"
#include "format/half.h"
#include "format/random.h"

namespace mebp {

using cpu::Storage;
using cpu::Tensor;

namespace {

constexpr size_t activationBytes = 32 << 20, weightBytes = 64 << 20;

// Between 0.5 and 1.5: no kernel meets infinity or numbers so small that a processor is slow with them.
float numberOf(size_t index) { return 0.5f + static_cast<float>(format::randomBits(1, 0, index) >> 40) * 0x1.0p-24f; }

std::vector<unsigned char> makeFloats(size_t bytes) {
  std::vector<unsigned char> out(bytes);
  auto *values = reinterpret_cast<float *>(out.data());
  for (size_t i = 0; i < bytes / sizeof(float); ++i)
    values[i] = numberOf(i);
  return out;
}

std::vector<unsigned char> makeHalves(size_t bytes) {
  std::vector<unsigned char> out(bytes);
  auto *values = reinterpret_cast<uint16_t *>(out.data());
  for (size_t i = 0; i < bytes / sizeof(uint16_t); ++i)
    values[i] = format::floatToBfloat(numberOf(i));
  return out;
}

} // namespace

Pools::Pools()
    : floats{makeFloats(activationBytes)}, halves{makeHalves(activationBytes / 2)},
      results{std::vector<unsigned char>(activationBytes)}, indices{std::vector<unsigned char>(1 << 16)},
      weightFloats(makeFloats(weightBytes)), weightHalves(makeHalves(weightBytes)), codes(weightBytes),
      scales(2 * weightBytes / format::groupSize + 1, 0x2000) { // 2^-7
  for (size_t i = 0; i < weightBytes; i += sizeof(uint64_t)) {
    uint64_t bits = format::randomBits(2, 0, i);
    std::memcpy(codes.data() + i, &bits, sizeof(bits));
  }
}

void Pools::reset() { floats.next = halves.next = results.next = indices.next = 0; }

Tensor Pools::take(Pool &pool, Storage storage, int64_t rows, int64_t columns) {
  Tensor tensor;
  tensor.data = pool.bytes.data() + pool.next;
  tensor.rows = rows, tensor.columns = tensor.stride = columns;
  tensor.storage = storage;
  pool.next += format::alignUp(format::bytesOf(storage, static_cast<uint64_t>(rows * columns)));
  return tensor;
}

Tensor Pools::operand(Storage storage, int64_t rows, int64_t columns) {
  return take(storage == Storage::BF16 ? halves : floats, storage, rows, columns);
}

Tensor Pools::result(Storage storage, int64_t rows, int64_t columns) { return take(results, storage, rows, columns); }

Tensor Pools::integers(int64_t rows, int64_t below) {
  Tensor tensor = take(indices, Storage::I32, rows, 1);
  for (int64_t row = 0; row < rows; ++row)
    tensor.i32()[row] = static_cast<int32_t>(row * 7919 % below);
  return tensor;
}

Tensor Pools::weight(Storage storage, int64_t rows, int64_t columns, size_t turn) {
  size_t bytes = format::bytesOf(storage, static_cast<uint64_t>(rows * columns)),
         offset = turn % (weightBytes / bytes) * bytes;
  Tensor tensor;
  tensor.rows = rows, tensor.columns = tensor.stride = columns;
  tensor.storage = storage;
  if (storage == Storage::F32 || storage == Storage::BF16) {
    tensor.data = (storage == Storage::F32 ? weightFloats : weightHalves).data() + offset;
    return tensor;
  }
  tensor.data = codes.data() + offset;
  tensor.group = static_cast<int32_t>(format::groupSize);
  tensor.scales = tensor.minima = scales.data() + (storage == Storage::Int4 ? 2 * offset : offset) / format::groupSize;
  return tensor;
}

} // namespace mebp
