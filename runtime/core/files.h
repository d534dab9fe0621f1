// SPDX-License-Identifier: Apache-2.0
//
// Files: read whole, mapped read-only, or replaced whole. Every failure names the path and the system's reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/input_file.h"
#include "runtime/core/status.h"
#include "runtime/core/watched_range.h"

namespace mebp {

// InputFile::readAll, by a path.
Result<std::string> readFile(const std::string &path, uint64_t largest);
Result<uint64_t> fileSize(const std::string &path);
Status makeFolder(const std::string &path);

// What will be written to a folder, which need not be there yet.
struct DiskUse {
  std::string folder;
  uint64_t bytes = 0;
};
// Refuses what the disks have no room for, together where several are on one; names the first folder of that disk.
Status checkSpace(const std::vector<DiskUse> &uses);

// A file, or a part of one, read-only. Its pages are clean: the system may drop them and read them again. What is cut
// off or cannot be read while it is mapped reads as zeros: ask isCut() before any of it counts.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  static Result<MappedFile> open(const std::string &path);
  static Result<MappedFile> map(InputFile file);
  const unsigned char *data() const { return bytes; }
  uint64_t size() const { return bytes ? file.size() : 0; }
  bool isCut() const { return watched.isCut(); }
  // Has written what the system may still hold: pages go only when they are clean.
  void sync() const;
  // Asks the system to read these bytes soon.
  void adviseIn(uint64_t offset, uint64_t count) const;
  // Gives their pages back: out of this process, and out of the cache unless another one maps them. A page that has
  // others' bytes, too, comes again when they are read.
  void adviseOut(uint64_t offset, uint64_t count) const;

private:
  uint64_t bytesBefore(uint64_t offset) const; // in the same page

  InputFile file;
  const unsigned char *bytes = nullptr;
  WatchedRange watched;
};

// A file written beside the one that it replaces, PATH.new. Until `replace` the old one stands; a destroyed writer that
// was not asked to replace leaves nothing behind. After a failure nothing more is done, and `sync` and `replace` give
// it.
class FileReplacement {
public:
  FileReplacement(const FileReplacement &) = delete;
  FileReplacement &operator=(const FileReplacement &) = delete;
  ~FileReplacement();

  explicit FileReplacement(const std::string &path);
  void write(const void *data, uint64_t size);
  Status sync();    // everything written is on the disk: from here on only the rename can fail
  Status replace(); // the rename, then the folder's own sync
  // The same, and the old file gets this name, in the place of what had it. At no moment is the target missing.
  Status replaceAndKeep(const std::string &name);

private:
  void fail(const char *what);
  Status syncFolder() const;

  Status failed; // the first one
  std::string target;
  std::string temporary;
  int descriptor = -1;
};

} // namespace mebp
