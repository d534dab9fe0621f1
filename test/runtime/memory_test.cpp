// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/platform.h"
#include "runtime/core/files.h"
#include "runtime/core/memory.h"
#include "support/tiny_model.h"

using namespace mebp;
using platform::writtenMemoryBytes;

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

} // namespace
