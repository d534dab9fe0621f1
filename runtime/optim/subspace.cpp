// SPDX-License-Identifier: Apache-2.0
//
// Terms: a thin matrix is `count` vectors, each of `length` numbers. They are its rows or its columns; here they are
// worked on as rows, so that all loops run along memory.
#include "runtime/optim/subspace.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/random.h"
#include "runtime/optim/symmetric_eigen.h"

namespace mebp {

using format::ThinShape;
using format::TrainedShape;

namespace {

struct Vectors {
  uint64_t count, length;
  bool areRows; // of the thin matrix

  uint64_t elements() const { return count * length; }
};

// On its smaller side, vectors are rows where that is the right one; on the other, where it is the left.
Vectors onSmallerSide(const TrainedShape &tensor, uint64_t count) {
  return {count, format::smallerSide(tensor.rows, tensor.columns),
          format::isProjectedOnRight(tensor.rows, tensor.columns)};
}
Vectors onLargerSide(const TrainedShape &tensor, uint64_t count) {
  return {count, std::max(tensor.rows, tensor.columns), !format::isProjectedOnRight(tensor.rows, tensor.columns)};
}

void toRows(const Vectors &vectors, const float *thin, float *rows) {
  if (vectors.areRows) {
    std::memcpy(rows, thin, vectors.elements() * sizeof(float));
    return;
  }
  for (uint64_t i = 0; i < vectors.length; ++i)
    for (uint64_t j = 0; j < vectors.count; ++j)
      rows[j * vectors.length + i] = thin[i * vectors.count + j];
}

void fromRows(const Vectors &vectors, const float *rows, float *thin) {
  if (vectors.areRows) {
    std::memcpy(thin, rows, vectors.elements() * sizeof(float));
    return;
  }
  for (uint64_t i = 0; i < vectors.length; ++i)
    for (uint64_t j = 0; j < vectors.count; ++j)
      thin[i * vectors.count + j] = rows[j * vectors.length + i];
}

// In sixteen parts, which a compiler may keep in vectors, each in double now and then.
double dot(const float *__restrict a, const float *__restrict b, uint64_t count) {
  constexpr uint64_t parts = 16, most = 1024;
  double sum = 0;
  for (uint64_t begin = 0; begin < count; begin += most) {
    const uint64_t end = std::min(count, begin + most);
    float sums[parts] = {};
    uint64_t i = begin;
    for (; i + parts <= end; i += parts)
      for (uint64_t j = 0; j < parts; ++j)
        sums[j] += a[i + j] * b[i + j];
    for (; i < end; ++i)
      sums[0] += a[i] * b[i];
    for (float part : sums)
      sum += static_cast<double>(part);
  }
  return sum;
}

void add(float *__restrict to, float factor, const float *__restrict from, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    to[i] += factor * from[i];
}

void scale(float *row, double factor, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    row[i] = static_cast<float>(row[i] * factor);
}

// Gram and Schmidt, each vector twice. Of one that is within rounding of the others' span, or not finite, nothing is
// left but rounding: a random one takes its place.
void orthonormalise(float *rows, uint64_t count, uint64_t length) {
  constexpr double least = 1e-5;
  for (uint64_t i = 0; i < count; ++i) {
    float *row = rows + i * length;
    double before = dot(row, row, length);
    for (int attempt = 0; attempt < 8; ++attempt) {
      for (int pass = 0; pass < 2; ++pass)
        for (uint64_t j = 0; j < i; ++j)
          add(row, static_cast<float>(-dot(rows + j * length, row, length)), rows + j * length, length);
      const double after = dot(row, row, length);
      if (after > least * least * before && std::isfinite(after)) {
        scale(row, 1 / std::sqrt(after), length);
        break;
      }
      for (uint64_t k = 0; k < length; ++k)
        row[k] = format::randomNormal(static_cast<uint64_t>(attempt), i, k);
      before = dot(row, row, length);
    }
  }
}

void orthonormalise(const Vectors &vectors, float *thin, unsigned char *workspace) {
  auto *rows = reinterpret_cast<float *>(workspace);
  toRows(vectors, thin, rows);
  orthonormalise(rows, vectors.count, vectors.length);
  fromRows(vectors, rows, thin);
}

// A singular vector's sign is arbitrary; moments that are kept from one subspace to the next need one rule.
void makeLargestPositive(float *row, uint64_t length) {
  const float *largest =
      std::max_element(row, row + length, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  if (*largest < 0)
    scale(row, -1, length);
}

// Numbers of the largest eigenvalues, the largest first, in `order`.
void sortEigenvalues(const double *values, uint64_t count, uint64_t *order) {
  for (uint64_t i = 0; i < count; ++i)
    order[i] = i;
  std::sort(order, order + count, [&](uint64_t a, uint64_t b) { return values[a] > values[b]; });
}

// A symmetric matrix of `n` with room to decompose it.
struct EigenRoom {
  EigenRoom(unsigned char *&next, uint64_t n)
      : matrix(reinterpret_cast<double *>(next)), values(matrix + n * n), off(values + n),
        order(reinterpret_cast<uint64_t *>(off + n)) {
    next += format::eigenBytes(n);
  }

  double *matrix, *values, *off;
  uint64_t *order;
};

} // namespace

void drawSketch(const TrainedShape &tensor, uint64_t seed, uint64_t stream, float *sketch) {
  const uint64_t elements = onSmallerSide(tensor, sketchRank(tensor)).elements();
  for (uint64_t i = 0; i < elements; ++i)
    sketch[i] = format::randomNormal(seed, stream, i);
}

// Vectors of a sketch are rows of the unit matrix: what comes out is a slice of the gradient, to the bit.
uint64_t countSlices(const TrainedShape &tensor) {
  return (format::smallerSide(tensor.rows, tensor.columns) - 1) / sketchRank(tensor) + 1;
}

void unitSketch(const TrainedShape &tensor, uint64_t slice, float *sketch) {
  const Vectors vectors = onSmallerSide(tensor, sketchRank(tensor));
  std::fill_n(sketch, vectors.elements(), 0.0f);
  for (uint64_t v = 0, i = slice * vectors.count; v < vectors.count && i < vectors.length; ++v, ++i)
    sketch[vectors.areRows ? v * vectors.length + i : i * vectors.count + v] = 1;
}

void addSlice(const TrainedShape &tensor, uint64_t slice, const float *range, float *gradient) {
  const uint64_t width = sketchRank(tensor), side = format::smallerSide(tensor.rows, tensor.columns);
  const uint64_t first = slice * width, count = first < side ? std::min(width, side - first) : 0;
  if (!format::isProjectedOnRight(tensor.rows, tensor.columns)) {
    add(gradient + first * tensor.columns, 1, range, count * tensor.columns);
    return;
  }
  for (uint64_t row = 0; row < tensor.rows; ++row)
    add(gradient + row * tensor.columns + first, 1, range + row * width, count);
}

void orthonormaliseSketch(const TrainedShape &tensor, float *sketch, unsigned char *workspace) {
  orthonormalise(onSmallerSide(tensor, sketchRank(tensor)), sketch, workspace);
}
void orthonormaliseRange(const TrainedShape &tensor, float *range, unsigned char *workspace) {
  orthonormalise(onLargerSide(tensor, sketchRank(tensor)), range, workspace);
}

// B = U S Vᵀ by B Bᵀ = U S² Uᵀ: the rows of Uᵀ B are those of Vᵀ, each S times as long.
bool projectorOfSketch(const TrainedShape &tensor, const float *sketch, float *projector, unsigned char *workspace) {
  const uint64_t count = sketchRank(tensor);
  const Vectors all = onSmallerSide(tensor, count), leading = onSmallerSide(tensor, tensor.rank);
  const EigenRoom room(workspace, count);
  auto *rows = reinterpret_cast<float *>(workspace), *out = rows + all.elements();
  toRows(all, sketch, rows);
  for (uint64_t i = 0; i < count; ++i)
    for (uint64_t j = 0; j <= i; ++j)
      room.matrix[i * count + j] = room.matrix[j * count + i] =
          dot(rows + i * all.length, rows + j * all.length, all.length);
  if (!decomposeSymmetric(room.matrix, count, room.values, room.off))
    return false;
  sortEigenvalues(room.values, count, room.order);
  std::fill(out, out + leading.elements(), 0.0f);
  for (uint64_t k = 0; k < leading.count; ++k) {
    float *row = out + k * all.length;
    for (uint64_t j = 0; j < count; ++j)
      add(row, static_cast<float>(room.matrix[room.order[k] * count + j]), rows + j * all.length, all.length);
  }
  orthonormalise(out, leading.count, leading.length);
  for (uint64_t k = 0; k < leading.count; ++k)
    makeLargestPositive(out + k * leading.length, leading.length);
  fromRows(leading, out, projector);
  return true;
}

// By Gᵀ G or G Gᵀ, whichever is of the smaller side, in double: its eigenvectors are G's singular vectors.
bool projectorOfGradient(const TrainedShape &tensor, const float *gradient, float *projector,
                         unsigned char *workspace) {
  const uint64_t side = format::smallerSide(tensor.rows, tensor.columns);
  const Vectors leading = onSmallerSide(tensor, tensor.rank);
  const EigenRoom room(workspace, side);
  auto *out = reinterpret_cast<float *>(workspace);
  std::fill(room.matrix, room.matrix + side * side, 0.0);
  const bool isOnRight = leading.areRows;
  const uint64_t rowStride = isOnRight ? 1 : tensor.columns, sumStride = isOnRight ? tensor.columns : 1;
  for (uint64_t sum = 0; sum < tensor.rows * tensor.columns / side; ++sum)
    for (uint64_t i = 0; i < side; ++i) {
      const double factor = gradient[sum * sumStride + i * rowStride];
      double *row = room.matrix + i * side;
      for (uint64_t j = 0; j < side; ++j)
        row[j] += factor * static_cast<double>(gradient[sum * sumStride + j * rowStride]);
    }
  if (!decomposeSymmetric(room.matrix, side, room.values, room.off))
    return false;
  sortEigenvalues(room.values, side, room.order);
  for (uint64_t k = 0; k < leading.count; ++k) {
    for (uint64_t i = 0; i < side; ++i)
      out[k * side + i] = static_cast<float>(room.matrix[room.order[k] * side + i]);
    makeLargestPositive(out + k * side, side);
  }
  fromRows(leading, out, projector);
  return true;
}

void project(const TrainedShape &tensor, const float *gradient, const float *projector, float *out) {
  const uint64_t rows = tensor.rows, columns = tensor.columns, rank = tensor.rank;
  if (format::isProjectedOnRight(rows, columns)) {
    for (uint64_t i = 0; i < rows; ++i)
      for (uint64_t k = 0; k < rank; ++k)
        out[i * rank + k] = static_cast<float>(dot(gradient + i * columns, projector + k * columns, columns));
    return;
  }
  std::fill(out, out + rank * columns, 0.0f);
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t k = 0; k < rank; ++k)
      add(out + k * columns, projector[i * rank + k], gradient + i * columns, columns);
}

} // namespace mebp
