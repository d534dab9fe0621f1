// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/optim/back_projection.h"
#include "runtime/optim/subspace.h"
#include "runtime/optim/symmetric_eigen.h"

using namespace mebp;

namespace {

std::vector<float> randomMatrix(uint64_t elements, unsigned seed = 0) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(elements);
  for (float &value : values)
    value = normal(generator);
  return values;
}

TEST(Subspace, EigenvectorsAreThoseOfTheMatrix) {
  for (uint64_t n : {1, 2, 3, 7, 64}) {
    const std::vector<float> random = randomMatrix(n * n);
    std::vector<double> matrix(n * n), vectors, values(n), off(n);
    for (uint64_t i = 0; i < n; ++i)
      for (uint64_t j = 0; j <= i; ++j)
        matrix[i * n + j] = matrix[j * n + i] = random[i * n + j];
    vectors = matrix;
    ASSERT_TRUE(decomposeSymmetric(vectors.data(), n, values.data(), off.data()));
    for (uint64_t k = 0; k < n; ++k)
      for (uint64_t i = 0; i < n; ++i) {
        double product = 0;
        for (uint64_t j = 0; j < n; ++j)
          product += matrix[i * n + j] * vectors[k * n + j];
        EXPECT_NEAR(product, values[k] * vectors[k * n + i], 1e-12 * n) << n;
      }
  }
}

TEST(Subspace, WhatIsNotFiniteDoesNotConverge) {
  const format::TrainedShape shape = {6, 4, 2};
  std::vector<float> gradient = randomMatrix(24), projector(8, 7.0f);
  std::vector<unsigned char> workspace(svdWorkspaceBytes(shape));
  gradient[5] = NAN;
  EXPECT_FALSE(projectorOfGradient(shape, gradient.data(), projector.data(), workspace.data()));
  EXPECT_EQ(projector, std::vector<float>(8, 7.0f));
}

// Element [i, j] of thin times thin, or of a transpose.
double at(const std::vector<float> &matrix, uint64_t columns, uint64_t i, uint64_t j) {
  return matrix[i * columns + j];
}

// With as many vectors as the smaller side has, a sketch holds all of it: both ways find the same projector.
TEST(Subspace, ASketchFindsWhatTheWholeGradientGives) {
  for (const format::TrainedShape &shape : {format::TrainedShape{20, 9, 3}, {9, 20, 3}, {9, 9, 9}}) {
    const std::vector<float> gradient = randomMatrix(shape.elements(), 1);
    const uint64_t side = std::min(shape.rows, shape.columns), large = std::max(shape.rows, shape.columns);
    const uint64_t width = format::sketchRank(shape.rows, shape.columns, shape.rank);
    ASSERT_EQ(width, side);
    std::vector<float> exact(side * shape.rank), found = exact, sketch(side * width), range(large * width);
    std::vector<unsigned char> workspace(std::max(svdWorkspaceBytes(shape), sketchWorkspaceBytes(shape)));
    ASSERT_TRUE(projectorOfGradient(shape, gradient.data(), exact.data(), workspace.data()));
    const bool isOnRight = format::isProjectedOnRight(shape.rows, shape.columns);
    // Of a sketch or a range: vector v's element i.
    auto of = [&](std::vector<float> &thin, bool isRange, uint64_t v, uint64_t i) -> float & {
      return isRange != isOnRight ? thin[v * (isRange ? large : side) + i] : thin[i * width + v];
    };
    auto element = [&](uint64_t onLarge, uint64_t onSmall) {
      return isOnRight ? at(gradient, shape.columns, onLarge, onSmall) : at(gradient, shape.columns, onSmall, onLarge);
    };
    drawSketch(shape, 3, 4, sketch.data());
    for (uint64_t v = 0; v < width; ++v)
      for (uint64_t i = 0; i < large; ++i) {
        double sum = 0;
        for (uint64_t j = 0; j < side; ++j)
          sum += element(i, j) * of(sketch, false, v, j);
        of(range, true, v, i) = static_cast<float>(sum);
      }
    orthonormaliseRange(shape, range.data(), workspace.data());
    for (uint64_t v = 0; v < width; ++v)
      for (uint64_t j = 0; j < side; ++j) {
        double sum = 0;
        for (uint64_t i = 0; i < large; ++i)
          sum += element(i, j) * of(range, true, v, i);
        of(sketch, false, v, j) = static_cast<float>(sum);
      }
    ASSERT_TRUE(projectorOfSketch(shape, sketch.data(), found.data(), workspace.data()));
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_NEAR(found[i], exact[i], 2e-5) << shape.rows;
  }
}

TEST(Subspace, SlicesAreTheWholeGradient) {
  for (const format::TrainedShape &shape : {format::TrainedShape{40, 31, 3}, {31, 40, 3}, {9, 9, 9}, {12, 11, 3}}) {
    const std::vector<float> gradient = randomMatrix(shape.elements(), 1);
    const uint64_t side = std::min(shape.rows, shape.columns), large = std::max(shape.rows, shape.columns);
    const uint64_t width = format::sketchRank(shape.rows, shape.columns, shape.rank);
    const bool isOnRight = format::isProjectedOnRight(shape.rows, shape.columns);
    std::vector<float> found(shape.elements()), sketch(side * width), range(large * width);
    EXPECT_EQ(countSlices(shape), (side + width - 1) / width);
    for (uint64_t slice = 0; slice <= countSlices(shape); ++slice) { // one more adds nothing
      unitSketch(shape, slice, sketch.data());
      for (uint64_t v = 0; v < width; ++v)
        for (uint64_t i = 0; i < large; ++i) {
          float sum = 0;
          for (uint64_t j = 0; j < side; ++j)
            sum += isOnRight ? gradient[i * shape.columns + j] * sketch[v * side + j]
                             : gradient[j * shape.columns + i] * sketch[j * width + v];
          range[isOnRight ? i * width + v : v * large + i] = sum;
        }
      addSlice(shape, slice, range.data(), found.data());
    }
    EXPECT_EQ(found, gradient) << shape.rows;
  }
}

// A gradient of fewer dimensions than the subspace: the rest of it is there, and orthonormal.
TEST(Subspace, AGradientOfLowRankHasAWholeSubspace) {
  const format::TrainedShape shape = {20, 12, 4};
  std::vector<float> sketch(12 * 12), projector(4 * 12);
  const std::vector<float> one = randomMatrix(12);
  for (uint64_t v = 0; v < 12; ++v)
    for (uint64_t i = 0; i < 12; ++i)
      sketch[v * 12 + i] = static_cast<float>(v) * one[i];
  std::vector<unsigned char> workspace(sketchWorkspaceBytes(shape));
  ASSERT_TRUE(projectorOfSketch(shape, sketch.data(), projector.data(), workspace.data()));
  for (uint64_t i = 0; i < 4; ++i)
    for (uint64_t j = 0; j < 4; ++j) {
      double product = 0;
      for (uint64_t k = 0; k < 12; ++k)
        product += at(projector, 12, i, k) * at(projector, 12, j, k);
      EXPECT_NEAR(product, i == j ? 1 : 0, 1e-5);
    }
}

TEST(Subspace, BackProjectionIsTheProduct) {
  for (uint64_t columns : {1, 15, 16, 67, 130})
    for (uint64_t rows : {1, 4, 7}) {
      const uint64_t inner = 5;
      const std::vector<float> left = randomMatrix(rows * inner, 1), right = randomMatrix(inner * columns, 2);
      std::vector<float> out(rows * columns + 1, -1.0f);
      projectBack(left.data(), right.data(), columns, rows, inner, columns, 0.25f, out.data());
      for (uint64_t i = 0; i < rows; ++i)
        for (uint64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (uint64_t k = 0; k < inner; ++k)
            sum += at(left, inner, i, k) * at(right, columns, k, j);
          EXPECT_NEAR(at(out, columns, i, j), sum / 4, 1e-6);
        }
      EXPECT_EQ(out.back(), -1.0f);
    }
}

} // namespace
