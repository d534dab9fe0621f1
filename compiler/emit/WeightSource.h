// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/nn/NN.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mebp {

/// Reads a parameter's rows as f32 [out, in], wherever its bytes are: an external file (mapped, never held), the
/// module, or nowhere, if values are to be drawn at random.
class WeightSource {
public:
  /// `randomSeed` draws values for parameters that have no data: normal with deviation 0.02, vectors all ones.
  explicit WeightSource(std::optional<uint64_t> randomSeed) : randomSeed(randomSeed) {}

  /// Makes `parameter` the one that is read. Fails with a diagnostic.
  llvm::LogicalResult open(nn::ParameterOp parameter, uint64_t index);
  /// Reads a row to out[columns]; several threads may at once.
  void readRow(uint64_t row, float *out) const;

private:
  llvm::LogicalResult openFile(nn::ParameterOp parameter, nn::ExternalDataAttr data);

  std::optional<uint64_t> randomSeed, seed; // of what has no data; of this parameter
  std::string fileName;
  std::unique_ptr<llvm::MemoryBuffer> file;
  std::vector<float> inlineValues;
  const char *bytes = nullptr; // null: random
  std::string element;
  uint64_t rows = 0, columns = 0, stream = 0;
  bool transposed = false, isVector = false;
};

} // namespace mebp
