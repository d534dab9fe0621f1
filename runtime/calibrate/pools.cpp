// SPDX-License-Identifier: Apache-2.0
#include "runtime/calibrate/pools.h"

#include <algorithm>
#include <cstring>

#include "format/alignment.h"
#include "format/half.h"
#include "format/random.h"
#include "format/storage.h"

namespace mebp {

using format::Storage;

namespace {

constexpr uint64_t weightBytes = 64 << 20;

// Between 0.5 and 1.5: no kernel meets infinity or numbers so small that a processor is slow with them.
float numberOf(size_t index) { return 0.5f + static_cast<float>(format::randomBits(1, 0, index) >> 40) * 0x1.0p-24f; }

template <typename Number, typename Make> void fill(void *data, uint64_t bytes, const Make &make) {
  auto *numbers = static_cast<Number *>(data);
  for (size_t i = 0; i < bytes / sizeof(Number); ++i)
    numbers[i] = make(i);
}

void fill(Pool pool, void *data, uint64_t bytes) {
  switch (pool) {
  case Pool::Floats:
  case Pool::Sums:
  case Pool::WeightFloats:
    return fill<float>(data, bytes, numberOf);
  case Pool::Halves:
  case Pool::WeightHalves:
    return fill<uint16_t>(data, bytes, [](size_t i) { return format::floatToBfloat(numberOf(i)); });
  case Pool::Indices:
    return fill<int32_t>(data, bytes, [](size_t i) { return static_cast<int32_t>(i * 7919 % Pools::vocabulary); });
  case Pool::Codes:
    return fill<uint64_t>(data, bytes, [](size_t i) { return format::randomBits(2, 0, i); });
  case Pool::Scales:
    return fill<uint16_t>(data, bytes, [](size_t) { return uint16_t(0x2000); }); // 2^-7
  case Pool::Results:
    break;
  }
}

bool isWeight(Pool pool) { return pool == Pool::WeightFloats || pool == Pool::WeightHalves || pool == Pool::Codes; }

self_test::Matrix matrixOf(format::ElementType element, int64_t rows, int64_t columns) {
  return {static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), element};
}

} // namespace

uint64_t bytesOf(const Tensor &tensor) {
  return tensor.matrix.rows * format::rowBytesOf(format::storageOf(tensor.matrix.element), tensor.matrix.columns);
}

Tensor Pools::take(Pool pool, format::ElementType element, int64_t rows, int64_t columns) {
  const auto index = static_cast<size_t>(pool);
  Tensor tensor{matrixOf(element, rows, columns), pool, next[index]};
  next[index] += format::alignUp(mebp::bytesOf(tensor));
  most[index] = std::max(most[index], next[index]);
  return tensor;
}

Tensor Pools::operand(format::ElementType element, int64_t rows, int64_t columns) {
  return take(element == format::BF16 ? Pool::Halves : Pool::Floats, element, rows, columns);
}

Tensor Pools::indices(int64_t rows) { return take(Pool::Indices, format::I32, rows, 1); }

Tensor Pools::sum(int64_t rows, int64_t columns) { return take(Pool::Sums, format::F32, rows, columns); }

Tensor Pools::result(format::ElementType element, int64_t rows, int64_t columns) {
  return take(Pool::Results, element, rows, columns);
}

Tensor Pools::weight(format::ElementType element, int64_t rows, int64_t columns) {
  const Pool pool = element == format::F32    ? Pool::WeightFloats
                    : element == format::BF16 ? Pool::WeightHalves
                                              : Pool::Codes;
  return {matrixOf(element, rows, columns), pool, 0};
}

void Pools::allocate() {
  for (Pool pool : {Pool::WeightFloats, Pool::WeightHalves, Pool::Codes})
    most[static_cast<size_t>(pool)] = weightBytes;
  // For as many codes as there are at two a byte.
  most[static_cast<size_t>(Pool::Scales)] = format::alignUp(2 * weightBytes / format::groupSize * sizeof(uint16_t));
  for (size_t i = 0; i < poolCount; ++i) {
    memory[i] = std::vector<Line>(most[i] / sizeof(Line));
    fill(static_cast<Pool>(i), memory[i].data(), most[i]);
  }
}

Pools::Lent::Lent(Pools &pools, Backend &backend) : backend(backend) {
  for (size_t i = 0; i < poolCount; ++i) {
    const auto pool = static_cast<Pool>(i);
    const bool isWritten = pool == Pool::Sums || pool == Pool::Results;
    buffers[i] = backend.take(pools.memory[i].data(), pools.most[i], isWritten ? Access::Shared : Access::Constant);
  }
}

Pools::Lent::~Lent() {
  for (Buffer buffer : buffers)
    backend.giveBack(buffer);
}

Binding Pools::Lent::bind(const Tensor &tensor, size_t turn) const {
  if (!isWeight(tensor.pool))
    return {at(tensor.pool, tensor.offset), {}, {}};
  const uint64_t bytes = format::alignUp(mebp::bytesOf(tensor)), offset = turn % (weightBytes / bytes) * bytes;
  const Storage storage = format::storageOf(tensor.matrix.element);
  if (!isQuantised(storage))
    return {at(tensor.pool, offset), {}, {}};
  const uint64_t codes = storage == Storage::Int4 ? 2 * offset : offset;
  const Place groups = at(Pool::Scales, codes / format::groupSize * sizeof(uint16_t));
  return {at(tensor.pool, offset), groups, groups};
}

} // namespace mebp
