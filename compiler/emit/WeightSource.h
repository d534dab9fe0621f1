// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/nn/Parameters.h"
#include "llvm/ADT/StringMap.h"
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
  /// The row's blocks, where the parameter has some: those of getFileType(), else null.
  const unsigned char *getBlocks(uint64_t row) const;
  const format::FileType *getFileType() const { return fileType; }

private:
  /// Some rows that lie one after the other in a file.
  struct Piece {
    uint64_t rows = 0;
    const char *bytes = nullptr;
    std::string element;
  };

  llvm::LogicalResult openBlocks(nn::ParameterOp parameter);
  llvm::LogicalResult openPiece(nn::ParameterOp parameter, nn::ExternalDataAttr data, uint64_t rows);
  llvm::FailureOr<const llvm::MemoryBuffer *> openFile(nn::ParameterOp parameter, llvm::StringRef name);

  std::optional<uint64_t> randomSeed, seed;                   // of what has no data; of this parameter
  llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> files; // mapped, none is read before its rows are
  std::vector<float> inlineValues;
  std::vector<Piece> pieces;  // of equal size; none: random
  std::vector<int64_t> apart; // the first and the number of rows that are zeros here
  const format::FileType *fileType = nullptr;
  std::vector<std::pair<uint64_t, const unsigned char *>> blocks; // so many rows that lie one after the other
  uint64_t blockBytes = 0;                                        // of a row
  uint64_t rows = 0, columns = 0, stream = 0;
  uint64_t matrixRows = 0; // of each expert; all, if there are none
  bool transposed = false, isVector = false;
};

} // namespace mebp
