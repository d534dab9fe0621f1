// SPDX-License-Identifier: Apache-2.0
//
// Constants of a graph while it is read.
#pragma once

#include "compiler/import/Extents.h"

#include <memory>
#include <vector>

namespace mebp {

/// A constant. All kinds are held as f64, which is exact but for the sentinels near 2^63 that slices end in.
struct HostTensor {
  enum class Kind { Float, Integer, Boolean };
  /// Cosines and sines stay unevaluated, so that a rotary table's angles can be read back exactly.
  enum class Function { Identity, Cos, Sin };

  Kind kind = Kind::Float;
  Extents shape;
  std::vector<double> data; // an element's value is scale * function(data)
  Function function = Function::Identity;
  double scale = 1;

  /// The same values with function Identity and scale 1.
  HostTensor evaluated() const;
  /// The elements as integers, those beyond int64 clamped.
  llvm::SmallVector<int64_t> integers() const;
};

using SharedTensor = std::shared_ptr<const HostTensor>;

/// More elements than this are no table that a decoder needs; folding them would take gigabytes.
constexpr int64_t kLargestTable = int64_t(1) << 26;
/// A size of 0 counts as 1: whoever goes through the other axes goes through them all.
bool fitsTable(llvm::ArrayRef<int64_t> shape);

} // namespace mebp
