// SPDX-License-Identifier: Apache-2.0
//
// What all systems do alike: maps, which are here so that nobody else makes one.
#include "platform/platform.h"

#include <sys/mman.h>
#include <unistd.h>

namespace mebp::platform {

uint64_t pageBytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

static void *orNull(void *start) { return start == MAP_FAILED ? nullptr : start; }

void *mapMemory(uint64_t bytes) {
  return orNull(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

void *mapFile(int descriptor, uint64_t offset, uint64_t bytes) {
  return orNull(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(offset)));
}

bool replaceByZeros(void *page) {
  return ::mmap(page, pageBytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void unmap(void *start, uint64_t bytes) { ::munmap(start, bytes); }

// Between two pages.
static uint64_t guardedBytes(uint64_t bytes) { return (bytes + pageBytes() - 1) / pageBytes() * pageBytes(); }

void *mapGuarded(uint64_t bytes) {
  const uint64_t inner = guardedBytes(bytes), page = pageBytes();
  auto *start = static_cast<unsigned char *>(mapMemory(inner + 2 * page));
  if (!start)
    return nullptr;
  if (::mprotect(start, page, PROT_NONE) != 0 || ::mprotect(start + page + inner, page, PROT_NONE) != 0) {
    unmap(start, inner + 2 * page);
    return nullptr;
  }
  return start + page + inner - bytes;
}

void unmapGuarded(void *start, uint64_t bytes) {
  const uint64_t inner = guardedBytes(bytes), page = pageBytes();
  unmap(static_cast<unsigned char *>(start) + bytes - inner - page, inner + 2 * page);
}

} // namespace mebp::platform
