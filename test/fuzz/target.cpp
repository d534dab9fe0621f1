// SPDX-License-Identifier: Apache-2.0
#include "target.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <malloc.h>
#include <unistd.h>

namespace mebp::fuzz {

static std::atomic<bool> counting{false};
static std::atomic<int64_t> held{0}, most{0};

static void countAllocated(int64_t bytes) {
  if (!counting.load(std::memory_order_relaxed))
    return;
  int64_t now = held += bytes;
  if (now > most)
    most = now;
}

static void countFreed(int64_t bytes) {
  if (counting.load(std::memory_order_relaxed))
    held -= bytes;
}

AllocationLimit::AllocationLimit(size_t fileBytes) {
  constexpr int64_t anyFile = 64 << 10;
  limit = 10 * static_cast<int64_t>(fileBytes) + anyFile;
  held = most = 0;
  counting = true;
}

AllocationLimit::~AllocationLimit() {
  counting = false;
  if (most <= limit)
    return;
  std::fprintf(stderr, "this file made its reader hold %" PRId64 " bytes, more than the allowed %" PRId64 "\n",
               most.load(), limit);
  std::abort();
}

namespace {
struct ScratchFolder {
  std::string path = (std::filesystem::temp_directory_path() / ("mebp-fuzz-" + std::to_string(::getpid()))).string();

  ScratchFolder() { std::filesystem::create_directories(path); }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};
} // namespace

const std::string &scratchFolder() {
  static ScratchFolder folder;
  return folder.path;
}

void writeFile(const std::string &path, const void *data, size_t size) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(static_cast<const char *>(data), static_cast<std::streamsize>(size));
}

} // namespace mebp::fuzz

// Every allocation of the process is counted: a sanitizer calls back, else malloc and its kin are these.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__has_feature)

// Declared here: gcc has these functions, but no header of theirs.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                                         void (*)(const volatile void *));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void *);

static void allocated(const volatile void *, size_t size) { mebp::fuzz::countAllocated(static_cast<int64_t>(size)); }
static void freed(const volatile void *block) {
  if (block)
    mebp::fuzz::countFreed(static_cast<int64_t>(__sanitizer_get_allocated_size(block)));
}
static const int hooks = __sanitizer_install_malloc_and_free_hooks(allocated, freed);

#else

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

static void *count(void *block) {
  mebp::fuzz::countAllocated(static_cast<int64_t>(::malloc_usable_size(block)));
  return block;
}
void *malloc(size_t size) { return count(__libc_malloc(size)); }
void *calloc(size_t number, size_t size) { return count(__libc_calloc(number, size)); }
void *realloc(void *block, size_t size) {
  mebp::fuzz::countFreed(static_cast<int64_t>(::malloc_usable_size(block)));
  return count(__libc_realloc(block, size));
}
void free(void *block) {
  mebp::fuzz::countFreed(static_cast<int64_t>(::malloc_usable_size(block)));
  __libc_free(block);
}
}

#endif
