// SPDX-License-Identifier: Apache-2.0
//
// How whole folders and names reach the disk, for the compiler as for the runtime. A function gives 0 or an errno.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mebp::format {

// The folder that a path lies in, "" where it has none, and what it is called there.
std::string parentOf(const std::string &path);
std::string nameOf(const std::string &path);
bool isFolder(const std::string &path);
// What lies in a folder, in any order; "" is the current one.
int listFolder(const std::string &folder, std::vector<std::string> &out);

// What was written is on the medium itself: platform::syncFile.
int syncFile(int descriptor);
// The names in this folder are on the medium itself; "" is the current one.
int syncFolder(const std::string &folder);
// Makes what is missing of it and of the folders above, each name synced.
int makeFolders(const std::string &folder);
// Bytes that this process may still write here, or in the nearest folder above that exists.
int freeBytes(const std::string &folder, uint64_t &out, uint64_t &device);

// Where things are kept that can be made again: $MEBP_CACHE, or ~/.cache/mebp; empty where there is no home.
std::string cacheFolder();

// A path that a user gave, with the home folder for its ~: a shell puts it there at the beginning of a word, and not in
// --state=~/x.
std::string userPath(const std::string &path);

// A folder that is written beside the one whose place it takes: TARGET.writing-PID, locked as long as it is written.
// Whoever writes the next removes what a killed writer left. Until `replace` the old one stands, and a destroyed writer
// leaves nothing behind.
class FolderReplacement {
public:
  explicit FolderReplacement(std::string target);
  FolderReplacement(const FolderReplacement &) = delete;
  FolderReplacement &operator=(const FolderReplacement &) = delete;
  ~FolderReplacement();

  int open();
  std::string file(const std::string &name) const { return path + "/" + name; }
  // Swaps the two. Files and folders within have to be synced by then.
  int replace();

private:
  int makeLocked();
  void removeLeftovers() const;
  int replaceByTwoRenames() const;

  const std::string target;
  std::string path;
  int descriptor = -1;
};

} // namespace mebp::format
