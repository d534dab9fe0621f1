// SPDX-License-Identifier: Apache-2.0
//
// A file without a name for what memory has no room for: it is gone with the process, however that ends.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/status.h"

namespace mebp {

class SpillFile {
public:
  SpillFile() = default;
  SpillFile(const SpillFile &) = delete;
  ~SpillFile();

  // Reserves all of its room, so that a full disk is found here. Refuses a folder whose files are in memory.
  Status open(const std::string &folder, uint64_t bytes);
  Status write(uint64_t offset, const void *data, uint64_t bytes);
  Status read(uint64_t offset, void *data, uint64_t bytes) const;
  // The system begins to read, or to write to the disk, what it will have to.
  void readAhead(uint64_t offset, uint64_t bytes) const;
  void writeBack(uint64_t offset, uint64_t bytes) const;
  uint64_t writtenBytes() const { return written; } // so far, in all

private:
  uint64_t written = 0;
  std::string place; // the folder
  int descriptor = -1;
};

} // namespace mebp
