// SPDX-License-Identifier: Apache-2.0
//
// Projected gradients (GaLore): the gradient of a matrix is multiplied with a thin factor as it is made, so that it
// never has the matrix's shape.
//
// The factor is on the matrix's smaller side, as the published code chooses it: dW Qᵀ = dyᵀ (x Qᵀ) where there are at
// least as many rows as columns, else Pᵀ dW = (dy P)ᵀ x. To find it, two programs take turns: a range is dW times a
// sketch, on the smaller side; a sketch is dWᵀ times a range, on the other. What comes out of the one, in its shape,
// goes into the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mebp::format {

// Of a factor, or of what is left of the gradient behind it.
struct ThinShape {
  uint64_t rows = 0, columns = 0;
};
constexpr bool isProjectedOnRight(uint64_t rows, uint64_t columns) { return rows >= columns; }
constexpr uint64_t smallerSide(uint64_t rows, uint64_t columns) { return rows < columns ? rows : columns; }
// On the smaller side, as are projectors and sketches.
constexpr ThinShape factorShape(uint64_t rows, uint64_t columns, uint64_t rank) {
  return isProjectedOnRight(rows, columns) ? ThinShape{rank, columns} : ThinShape{rows, rank};
}
// On the larger side, as are projected gradients and ranges.
constexpr ThinShape projectedShape(uint64_t rows, uint64_t columns, uint64_t rank) {
  return isProjectedOnRight(rows, columns) ? ThinShape{rows, rank} : ThinShape{rank, columns};
}

// A sketch is a little wider than a projector, which is what makes it good (Halko, Martinsson and Tropp, 2011).
constexpr uint64_t oversampling = 8;
constexpr uint64_t sketchRank(uint64_t rows, uint64_t columns, uint64_t rank) {
  const uint64_t most = smallerSide(rows, columns);
  return rank + oversampling < most ? rank + oversampling : most;
}

// What finding a projector by a sketch of that width needs beside it: a symmetric matrix with its eigenvalues, and the
// sketch twice, in f32.
constexpr uint64_t eigenBytes(uint64_t size) { return (size * size + 3 * size) * sizeof(double); }
constexpr uint64_t sketchWorkspaceBytes(uint64_t rows, uint64_t columns, uint64_t width) {
  return eigenBytes(width) + 2 * width * (rows > columns ? rows : columns) * sizeof(float);
}

// What finding one by a singular value decomposition of the whole gradient needs beside that.
constexpr uint64_t svdWorkspaceBytes(uint64_t rows, uint64_t columns, uint64_t rank) {
  const uint64_t side = smallerSide(rows, columns);
  return eigenBytes(side) + side * rank * sizeof(float);
}

// A block's programs for it, and ports of a trainable NAME: NAME.projector goes into the program that gives its
// GRADIENT, NAME.sketch into the one that gives the GRADIENT NAME.range, and the other way round.
constexpr std::string_view rangeProgram = "gradient_range", sketchProgram = "gradient_sketch";
constexpr std::string_view projectorSuffix = ".projector", sketchSuffix = ".sketch", rangeSuffix = ".range";

// Which of them a port's name has; empty where it is that of a parameter itself.
constexpr std::string_view thinSuffixOf(std::string_view port) {
  for (std::string_view suffix : {projectorSuffix, sketchSuffix, rangeSuffix})
    if (port.size() > suffix.size() && port.substr(port.size() - suffix.size()) == suffix)
      return suffix;
  return {};
}
constexpr std::string_view parameterOf(std::string_view port) {
  return port.substr(0, port.size() - thinSuffixOf(port).size());
}
inline std::string nameThin(std::string_view parameter, std::string_view suffix) {
  return std::string(parameter).append(suffix);
}

} // namespace mebp::format
