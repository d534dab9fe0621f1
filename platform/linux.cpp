// SPDX-License-Identifier: Apache-2.0
//
// Linux, with glibc, musl or Android's C library. What only one of them declares is called by its number.
#include "platform/platform.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace mebp::platform {

static int result(bool ok) { return ok ? 0 : errno; }

static void advise(const void *start, uint64_t bytes, int advice) {
  ::madvise(const_cast<void *>(start), bytes, advice);
}

void prefetchMap(const void *start, uint64_t bytes) { advise(start, bytes, MADV_WILLNEED); }

void dropMap(const void *start, int descriptor, uint64_t offset, uint64_t bytes) {
  advise(start, bytes, MADV_DONTNEED);
  ::posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

int loadMap(const void *start, uint64_t bytes) {
  constexpr int populateRead = 22; // MADV_POPULATE_READ, of Linux 5.14; an older one leaves it to the first touch
  return ::madvise(const_cast<void *>(start), bytes, populateRead) != 0 && errno == EFAULT ? EIO : 0;
}

int syncFile(int descriptor) { return result(::fsync(descriptor) == 0); }

void cleanPages(int descriptor) { ::fdatasync(descriptor); }

int reserve(int descriptor, uint64_t bytes) {
  const int reason = bytes == 0 ? 0 : ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  return reason < 0 ? errno : reason; // zig's C library gives -1 and sets errno
}

void prefetchFile(int descriptor, uint64_t offset, uint64_t bytes) {
  ::posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

void startWriting(int descriptor, uint64_t offset, uint64_t bytes) {
  ::sync_file_range(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

int finishWriting(int descriptor, uint64_t offset, uint64_t bytes) {
  constexpr unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  int reason = result(::sync_file_range(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), all) == 0);
  // A file system that cannot wait for a range still has what was written.
  return reason == EIO || reason == ENOSPC ? reason : 0;
}

bool isInMemory(int descriptor) {
  struct statfs system;
  return ::fstatfs(descriptor, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

int exchangeNames(const char *first, const char *second) {
#ifdef __GLIBC__
  int reason = result(::renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE) == 0);
#else
  constexpr unsigned exchange = 2; // RENAME_EXCHANGE
  int reason = result(::syscall(SYS_renameat2, AT_FDCWD, first, AT_FDCWD, second, exchange) == 0);
#endif
  return reason == EINVAL || reason == ENOSYS || reason == EOPNOTSUPP ? ENOTSUP : reason;
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

// Of the pages from address `begin` to `end`, by an open /proc/self/pagemap: a number of 64 bits for each.
static uint64_t residentBytes(int pagemap, uint64_t begin, uint64_t end) {
  const uint64_t page = pageBytes();
  uint64_t entries[512], resident = 0;
  while (begin < end) {
    const uint64_t wanted = std::min<uint64_t>((end - begin) / page, std::size(entries)) * sizeof(entries[0]);
    const ssize_t bytes = ::pread(pagemap, entries, wanted, static_cast<off_t>(begin / page * sizeof(entries[0])));
    if (bytes < static_cast<ssize_t>(sizeof(entries[0])))
      break;
    const uint64_t count = static_cast<uint64_t>(bytes) / sizeof(entries[0]);
    for (uint64_t i = 0; i < count; ++i)
      resident += entries[i] >> 63; // "present"
    begin += count * page;
  }
  return resident * page;
}

// smaps would tell of writable shared maps, too, but walks every page of the process, and some have gigabytes and a
// small such map of a library.
uint64_t writtenMemoryBytes() {
  uint64_t bytes = 0;
  forEachLine("/proc/self/status", [&](const char *line) {
    if (std::strncmp(line, "RssAnon:", 8) == 0)
      bytes = kibibytes(line + 8);
  });
  int pagemap = -1;
  forEachLine("/proc/self/maps", [&](const char *line) {
    const char *permissions = permissionsOf(line);
    if (!permissions || permissions[1] != 'w' || permissions[3] != 's')
      return;
    if (pagemap < 0)
      pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    char *behind = nullptr;
    const uint64_t begin = std::strtoull(line, &behind, 16), end = std::strtoull(behind + 1, nullptr, 16);
    if (pagemap >= 0)
      bytes += residentBytes(pagemap, begin, end);
  });
  if (pagemap >= 0)
    ::close(pagemap);
  return bytes;
}

uint64_t physicalMemoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<uint64_t>(pages) * pageBytes() : 0;
}

uint32_t availableThreads() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    return static_cast<uint32_t>(CPU_COUNT(&allowed));
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<uint32_t>(online) : 1;
}

// The scheduler puts a busy thread on a fast core by itself.
void beginWorkerThread() {}

uint64_t setTimerSlack(uint64_t nanoseconds) {
  const int before = ::prctl(PR_GET_TIMERSLACK);
  ::prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(nanoseconds));
  return before > 0 ? static_cast<uint64_t>(before) : 0;
}

static long futex(const std::atomic<uint32_t> &word, int what, uint32_t value) {
  return ::syscall(SYS_futex, &word, what | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

void sleepWhile(const std::atomic<uint32_t> &word, uint32_t value) { futex(word, FUTEX_WAIT, value); }

void wake(const std::atomic<uint32_t> &word, uint32_t most) {
  futex(word, FUTEX_WAKE, most < INT_MAX ? most : INT_MAX);
}

// The program's own headers are in its first map, and no other file's.
static bool isOfProgram(const Dl_info &found) {
  Dl_info program;
  return ::dladdr(reinterpret_cast<const void *>(::getauxval(AT_PHDR)), &program) &&
         program.dli_fbase == found.dli_fbase;
}

static void copyPath(const char *from, char *path, size_t room) {
  if (from[0] == '/' && std::strlen(from) < room)
    std::strcpy(path, from);
}

// The loader has the name that a library was opened by, and calls the program by its first argument. Where that is no
// absolute path, another file may have the name by now: the kernel knows which file the map is of.
void fileOfCode(const void *code, char *path, size_t room) {
  path[0] = '\0';
  Dl_info found;
  if (!::dladdr(code, &found) || !found.dli_fname)
    return;
  if (found.dli_fname[0] == '/' && !isOfProgram(found))
    return copyPath(found.dli_fname, path, room);
  const auto address = reinterpret_cast<uintptr_t>(code);
  forEachLine("/proc/self/maps", [&](const char *line) {
    char *behind = nullptr;
    const uint64_t begin = std::strtoull(line, &behind, 16), end = std::strtoull(behind + 1, nullptr, 16);
    const char *file = std::strchr(line, '/');
    if (permissionsOf(line) && begin <= address && address < end && file)
      copyPath(file, path, room);
  });
}

bool hasArmBf16() {
#ifdef __aarch64__
  constexpr unsigned long bf16 = 1 << 14; // HWCAP2_BF16
  return ::getauxval(AT_HWCAP2) & bf16;
#else
  return false;
#endif
}

} // namespace mebp::platform
