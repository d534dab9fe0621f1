// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/mlx/value.h"

#include <algorithm>

#include "format/container.h"
#include "format/device_memory.h"
#include "format/storage.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

mx::Dtype dtypeOf(format::ElementType element) {
  switch (element) {
  case format::BF16:
    return mx::bfloat16;
  case format::I32:
    return mx::int32;
  case format::INT4:
  case format::INT8:
    return mx::uint8;
  default:
    return mx::float32;
  }
}

// Where MLX's allocator can take foreign memory over, as with Metal, this copies nothing. Its CPU's copies.
static array wrapMemory(const void *memory, int rows, int columns, mx::Dtype dtype) {
  return array(const_cast<void *>(memory), {rows, columns}, dtype, [](void *) {});
}

Value wrap(const void *data, const void *scales, const void *minima, format::ElementType element, int rows,
           int columns) {
  auto stride = static_cast<int>(format::strideOf(format::storageOf(element), static_cast<uint64_t>(columns)));
  int stored = element == format::INT4 ? stride / 2 : stride;
  Value value{wrapMemory(data, rows, stored, dtypeOf(element)), element, columns};
  if (isQuantised(format::storageOf(element))) {
    int groups = stride / static_cast<int>(format::groupSize);
    value.scales = wrapMemory(scales, rows, groups, mx::float16);
    value.minima = wrapMemory(minima, rows, groups, mx::float16);
  }
  return value;
}

// [rows, groups, group], in the columns' order.
static array codesOf(const array &bytes, format::ElementType element) {
  constexpr auto group = static_cast<int>(format::groupSize);
  int rows = bytes.shape(0);
  if (element == format::INT8)
    return mx::reshape(bytes, {rows, -1, group});
  array low = mx::bitwise_and(bytes, array(uint8_t(15))), high = mx::right_shift(bytes, array(uint8_t(4)));
  return mx::reshape(mx::stack({low, high}, -1), {rows, -1, group});
}

array numbersOf(const Value &value) {
  if (!isQuantised(format::storageOf(value.element)))
    return mx::astype(value.data, mx::float32);
  array codes = mx::astype(codesOf(value.data, value.element), mx::float32);
  array scales = mx::expand_dims(mx::astype(*value.scales, mx::float32), -1);
  array minima = mx::expand_dims(mx::astype(*value.minima, mx::float32), -1);
  return columnsOf(mx::reshape(scales * codes + minima, {value.data.shape(0), -1}), 0, value.columns);
}

array gatherRows(const Value &value, const array &rows) {
  Value gathered = value;
  gathered.data = mx::take(value.data, rows, 0);
  if (isQuantised(format::storageOf(value.element))) {
    gathered.scales = mx::take(*value.scales, rows, 0);
    gathered.minima = mx::take(*value.minima, rows, 0);
  }
  return numbersOf(gathered);
}

static array quantisedProduct(const array &x, const Value &matrix, bool transposed) {
  constexpr auto group = static_cast<int>(format::groupSize);
  array words = mx::view(matrix.data, mx::uint32);
  int padding = matrix.scales->shape(1) * group - matrix.columns;
  // The columns that fill up a row's last group meet zeros, or are cut off.
  array left = transposed && padding ? mx::pad(x, {{0, 0}, {0, padding}}) : x;
  array whole = mx::quantized_matmul(left, words, *matrix.scales, matrix.minima, transposed, group,
                                     matrix.element == format::INT4 ? 4 : 8);
  return transposed || !padding ? whole : columnsOf(whole, 0, matrix.columns);
}

// MLX's products on the CPU add up one number after another, so that an error grows with the length of the sum: over
// 1,536 of them SmolLM2's gradients were 4.4e-5 off. There sums of so many are added up.
constexpr int mostAdded = 128;

// `part(first, count, before)` is the product of these factors, computed when all of `before` is there: one part after
// the other, so that few are held at once.
template <typename Part>
static array addParts(int first, int count, const Part &part, const std::vector<array> &before = {}) {
  if (count <= mostAdded || mx::default_device() != mx::Device::cpu)
    return part(first, count, before);
  const int half = (count / mostAdded + 1) / 2 * mostAdded;
  const array left = addParts(first, half, part, before);
  return left + addParts(first + half, count - half, part, {left});
}

array addedInParts(int depth, const std::function<array(int, int, const std::vector<array> &)> &part) {
  return addParts(0, depth, part);
}

// Likewise. What is off in a norm's mean is off in its whole row.
array sumOf(const array &x) {
  constexpr int part = 32;
  if (x.shape(-1) % part != 0 || mx::default_device() != mx::Device::cpu)
    return mx::sum(x, -1, true);
  mx::Shape parts = x.shape();
  parts.back() /= part;
  parts.push_back(part);
  return mx::sum(mx::sum(mx::reshape(x, parts), -1), -1, true);
}

array product(const array &a, const array &b) {
  return addParts(0, a.shape(-1), [&](int first, int count, const std::vector<array> &before) {
    mx::Shape aBegin(a.ndim(), 0), bBegin(b.ndim(), 0), aEnd = a.shape(), bEnd = b.shape();
    aBegin.back() = bBegin[b.ndim() - 2] = first;
    aEnd.back() = bEnd[b.ndim() - 2] = first + count;
    return mx::matmul(behind(before, mx::slice(a, aBegin, aEnd)), mx::slice(b, bBegin, bEnd));
  });
}

array productInTiles(const array &x, const Value &matrix, int mostNumbers) {
  const int rows = std::max(1, mostNumbers / matrix.columns), all = matrix.data.shape(0);
  std::vector<array> sum; // empty until there is one
  for (int first = 0; first < all; first += rows) {
    const int count = std::min(rows, all - first);
    Value tile = sliceRows(matrix, first, count);
    tile.data = behind(sum, tile.data);
    const array part = product(columnsOf(x, first, count), numbersOf(tile));
    sum = {sum.empty() ? part : sum.front() + part};
  }
  return sum.front();
}

array narrowProduct(const array &x, const Value &matrix, bool transposed, int mostNumbers) {
  const int rows = std::max(1, mostNumbers / matrix.columns), all = matrix.data.shape(0);
  std::vector<array> parts; // columns of the result, or one sum
  for (int first = 0; first < all; first += rows) {
    const int count = std::min(rows, all - first);
    Value tile = sliceRows(matrix, first, count);
    tile.data = behind(parts, tile.data);
    const array numbers = mx::astype(numbersOf(tile), mx::bfloat16);
    const array part =
        transposed ? mx::matmul(x, mx::transpose(numbers)) : mx::matmul(columnsOf(x, first, count), numbers);
    const array wide = mx::astype(part, mx::float32);
    if (transposed || parts.empty())
      parts.push_back(wide);
    else
      parts = {parts.front() + wide};
  }
  return parts.size() == 1 ? parts.front() : mx::concatenate(parts, 1);
}

array product(const array &given, const Value &matrix, bool transposed, const Routes &routes) {
  const bool isDense = !isQuantised(format::storageOf(matrix.element)), onCpu = mx::default_device() == mx::Device::cpu;
  if (!onCpu && routes.narrowProducts && given.dtype() == mx::bfloat16 && matrix.element != format::F32)
    return narrowProduct(given, matrix, transposed, format::productTile);
  const array x = mx::astype(given, mx::float32);
  // On GPUs, MLX's quantised product with a matrix as it lies is slow, and for some sizes it was wrong.
  if (!isDense && !transposed && (!routes.quantisedProducts || !onCpu))
    return productInTiles(x, matrix, format::productTile);
  if (isDense || !routes.quantisedProducts) {
    array numbers = numbersOf(matrix);
    return product(x, transposed ? mx::transpose(numbers) : numbers);
  }
  return addParts(0, x.shape(1), [&](int first, int count, const std::vector<array> &before) {
    return quantisedProduct(behind(before, columnsOf(x, first, count)),
                            transposed ? sliceColumns(matrix, first, count) : sliceRows(matrix, first, count),
                            transposed);
  });
}

array behind(const std::vector<array> &others, const array &x) {
  return others.empty() ? x : mx::depends({x}, others).front();
}

Value sliceRows(const Value &value, int first, int count) {
  Value part = value;
  part.data = rowsOf(value.data, first, count);
  if (isQuantised(format::storageOf(value.element))) {
    part.scales = rowsOf(*value.scales, first, count);
    part.minima = rowsOf(*value.minima, first, count);
  }
  return part;
}

Value sliceColumns(const Value &value, int first, int count) {
  if (!isQuantised(format::storageOf(value.element)))
    return {columnsOf(value.data, first, count), value.element, count};
  constexpr auto group = static_cast<int>(format::groupSize);
  const int groups = (count + group - 1) / group, perGroup = value.data.shape(1) / value.scales->shape(1);
  Value part = value;
  part.columns = count;
  part.data = columnsOf(value.data, first / group * perGroup, groups * perGroup);
  part.scales = columnsOf(*value.scales, first / group, groups);
  part.minima = columnsOf(*value.minima, first / group, groups);
  return part;
}

array rowsOf(const array &matrix, int first, int count) {
  return mx::slice(matrix, {first, 0}, {first + count, matrix.shape(1)});
}

array columnsOf(const array &matrix, int first, int count) {
  return mx::slice(matrix, {0, first}, {matrix.shape(0), first + count});
}

} // namespace mebp::mlx
