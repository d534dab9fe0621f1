// SPDX-License-Identifier: Apache-2.0
//
// A file of token ids, cut into rows. It stays mapped: rows are read when they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rows.h"

class TokenFile : public RowSource {
public:
  TokenFile() = default;
  TokenFile(const TokenFile &) = delete;
  ~TokenFile() override;

  // .npy of int32 or int64, [n, tokens] or one dimension; anything else is little-endian uint32. `sequence` 0: as the
  // file has them, or `longest`. Returns an empty string, or one line that says what is wrong.
  std::string open(const std::string &path, uint32_t sequence, uint32_t longest);

  uint64_t rows() const override { return rowCount; }
  uint32_t sequence() const override { return length; }
  uint32_t checksum() const override;
  // Rows in the file's order, again and again.
  std::string read(uint64_t step, uint32_t batch, StepRows &out) override;

private:
  // Writes sequence() ids. Returns an empty string, or what is wrong with the row.
  std::string readRow(uint64_t row, int32_t *out);
  std::string openFile(const std::string &path);
  bool readAt(uint64_t offset, void *out, size_t count) const;
  std::string readNumpyHeader(const std::string &path);
  std::string cut(const std::string &path, uint32_t sequence, uint32_t longest);

  // Read where it is needed: of a mapped file that somebody cuts off, a read would end the process.
  int descriptor = -1;
  std::vector<unsigned char> row; // as the file has it
  uint64_t size = 0;
  size_t start = 0;   // of the ids
  uint32_t width = 4; // bytes of an id
  bool isSigned = false;
  uint64_t fileColumns = 0; // of a file that has rows; 0: one long row
  uint64_t count = 0;       // of all ids
  uint64_t rowCount = 0, stride = 0;
  uint32_t length = 0;
};
