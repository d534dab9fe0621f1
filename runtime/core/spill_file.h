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

  // Where files go that no folder was named for: $TMPDIR, or /var/tmp, which is on a disk where /tmp may not be.
  static const char *defaultFolder();

  // Reserves all of its room, so that a full disk is found here; 0: it grows as it is written. Refuses a folder whose
  // files are in memory. The first `mapped` bytes can be read in place.
  Status open(const std::string &folder, uint64_t bytes, uint64_t mapped);
  Status write(uint64_t offset, const void *data, uint64_t bytes);
  Status read(uint64_t offset, void *data, uint64_t bytes) const;
  const unsigned char *data() const { return map; } // pages that were only read: clean once they are on the disk

  // Below, an offset is one of a page.
  // The system begins to read, or to write to the disk, what it will have to.
  void readAhead(uint64_t offset, uint64_t bytes) const;
  void writeBack(uint64_t offset, uint64_t bytes) const;
  // To be called before these bytes are read in place: returns when they are on the disk, so that their pages are
  // clean, and in memory, so that a disk that fails is found here.
  Status prepareRead(uint64_t offset, uint64_t bytes) const;
  // Gives these bytes back: out of the map, and out of the system's cache.
  void drop(uint64_t offset, uint64_t bytes) const;
  uint64_t writtenBytes() const { return written; } // so far, in all

private:
  uint64_t written = 0;
  std::string place; // the folder
  unsigned char *map = nullptr;
  uint64_t mapBytes = 0;
  int descriptor = -1;
};

} // namespace mebp
