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

} // namespace mebp::platform
