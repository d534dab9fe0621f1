// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/core/files.h"
#include "runtime/core/memory.h"
#include "support/tiny_model.h"

using namespace mebp;

namespace {

constexpr uint64_t size = 32 << 20;

TEST(Memory, CountsPagesOnceTheyAreTouched) {
  uint64_t before = writtenMemoryBytes();
  Result<Arena> arena = Arena::allocate(size);
  ASSERT_TRUE(arena.ok());
  EXPECT_LT(writtenMemoryBytes(), before + size / 4);
  std::memset(arena->data(), 1, size);
  EXPECT_GT(writtenMemoryBytes(), before + size / 10 * 9);
  EXPECT_LT(writtenMemoryBytes(), before + size / 10 * 11);
}

TEST(Memory, CountsWritableSharedMappingsAndNoReadOnlyOnes) {
  std::string path = test::scratchPath();
  test::writeWhole(path, std::string(size, 'x'));
  uint64_t before = writtenMemoryBytes();
  {
    Result<MappedFile> clean = MappedFile::open(path);
    ASSERT_TRUE(clean.ok());
    uint64_t sum = 0;
    for (uint64_t i = 0; i < size; i += 4096)
      sum += clean->data()[i];
    EXPECT_GT(sum, 0u);
    EXPECT_LT(writtenMemoryBytes(), before + size / 4);
  }
  FILE *file = std::fopen(path.c_str(), "r+");
  void *mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, ::fileno(file), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::memset(mapped, 1, size);
  EXPECT_GT(writtenMemoryBytes(), before + size / 10 * 9);
  ::munmap(mapped, size);
  std::fclose(file);
  ::unlink(path.c_str());
}

TEST(Memory, RefusesWhatTheSystemDoesNotHave) {
  Result<Arena> arena = Arena::allocate(uint64_t(1) << 60);
  EXPECT_EQ(arena.status().code(), MEBP_OUT_OF_MEMORY);
}

TEST(Files, LeavesTheOldFileUntilTheNewOneIsWhole) {
  std::string path = test::scratchPath();
  test::writeWhole(path, "old");
  {
    FileReplacement file(path);
    file.write("half", 4);
    ASSERT_TRUE(file.sync().ok());
  }
  EXPECT_EQ(test::readWhole(path), "old");
  EXPECT_FALSE(std::ifstream(path + ".new").good());
  FileReplacement file(path);
  file.write("new", 3);
  ASSERT_TRUE(file.sync().ok());
  ASSERT_TRUE(file.replace().ok());
  EXPECT_EQ(test::readWhole(path), "new");
  ::unlink(path.c_str());
}

TEST(Files, NamesThePathAndTheReason) {
  Result<std::string> missing = readFile("/nowhere/at/all");
  EXPECT_EQ(missing.status().code(), MEBP_NOT_FOUND);
  EXPECT_EQ(missing.status().message(), "/nowhere/at/all: cannot open: No such file or directory; check the path");
  Status folder = makeFolder("/dev/null/folder");
  EXPECT_EQ(folder.code(), MEBP_IO);
  // A device that is always full.
  if (::access("/dev/full", W_OK) == 0) {
    std::string link = test::scratchPath();
    ASSERT_EQ(::symlink("/dev/full", (link + ".new").c_str()), 0);
    FileReplacement file(link);
    file.write("x", 1);
    file.write("y", 1);
    for (const Status &status : {file.sync(), file.replace()}) {
      EXPECT_EQ(status.code(), MEBP_IO);
      EXPECT_EQ(status.message(), link + ": cannot write: No space left on device; make room or choose another folder");
    }
    EXPECT_EQ(::access(link.c_str(), F_OK), -1);
  }
}

} // namespace
