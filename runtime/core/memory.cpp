// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/alignment.h"

namespace mebp {

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  std::swap(owner, other.owner);
  return *this;
}

Arena::~Arena() {
  if (length && owner.release)
    owner.release(owner.user, bytes, length);
  else if (length)
    ::munmap(bytes, length);
}

Result<Arena> Arena::allocate(uint64_t size, const mebp_allocator &allocator) {
  Arena arena;
  arena.owner = allocator;
  void *start = allocator.allocate ? allocator.allocate(allocator.user, size, format::alignment)
                                   : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!start || start == MAP_FAILED)
    return failure(MEBP_OUT_OF_MEMORY, "the session needs %llu bytes, which the %s",
                   static_cast<unsigned long long>(size),
                   start ? (std::string("system refuses: ") + std::strerror(errno)).c_str() : "allocator refuses");
  arena.bytes = static_cast<unsigned char *>(start);
  arena.length = size;
  if (reinterpret_cast<uintptr_t>(start) % format::alignment != 0)
    return failure(MEBP_INVALID_ARGUMENT, "the allocator's memory begins at %p, which is not a multiple of %llu", start,
                   static_cast<unsigned long long>(format::alignment));
  return arena;
}

// Calls `take` with every line of a file of /proc, without allocating; lines beyond the buffer come in pieces.
template <typename Take> static bool forEachLine(const char *path, Take take) {
  int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  char buffer[4096];
  size_t filled = 0;
  ssize_t count;
  while ((count = ::read(descriptor, buffer + filled, sizeof(buffer) - 1 - filled)) > 0) {
    filled += static_cast<size_t>(count);
    buffer[filled] = '\0';
    char *start = buffer;
    while (char *end = std::strchr(start, '\n')) {
      *end = '\0';
      take(static_cast<const char *>(start));
      start = end + 1;
    }
    filled = static_cast<size_t>(buffer + filled - start);
    if (filled == sizeof(buffer) - 1)
      filled = 0;
    std::memmove(buffer, start, filled);
  }
  ::close(descriptor);
  return true;
}

static uint64_t kibibytes(const char *text) { return std::strtoull(text, nullptr, 10) * 1024; }

// "55d0c0a00000-55d0c0a21000 rw-s 00000000 ...": the permissions are the second word.
static const char *permissionsOf(const char *line) {
  const char *space = std::strchr(line, ' ');
  return space && std::strchr("0123456789abcdef", line[0]) && std::strlen(space) > 4 ? space + 1 : nullptr;
}

uint64_t writtenMemoryBytes() {
  uint64_t bytes = 0;
  bool shared = false;
  forEachLine("/proc/self/status", [&](const char *line) {
    if (std::strncmp(line, "RssAnon:", 8) == 0)
      bytes = kibibytes(line + 8);
  });
  forEachLine("/proc/self/maps", [&](const char *line) {
    const char *permissions = permissionsOf(line);
    shared |= permissions && permissions[1] == 'w' && permissions[3] == 's';
  });
  // smaps walks every page, so it is read only where there is something to find.
  if (!shared)
    return bytes;
  bool counts = false;
  forEachLine("/proc/self/smaps", [&](const char *line) {
    if (const char *permissions = permissionsOf(line))
      counts = permissions[1] == 'w' && permissions[3] == 's';
    else if (counts && std::strncmp(line, "Rss:", 4) == 0)
      bytes += kibibytes(line + 4);
  });
  return bytes;
}

void PeakMemory::sample() { highest = std::max(highest, writtenMemoryBytes()); }

uint64_t physicalMemoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
}

uint32_t availableThreads() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    return static_cast<uint32_t>(CPU_COUNT(&allowed));
  unsigned count = std::thread::hardware_concurrency();
  return count ? count : 1;
}

} // namespace mebp
