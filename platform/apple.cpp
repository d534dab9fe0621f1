// SPDX-License-Identifier: Apache-2.0
//
// macOS and iOS.
#include "platform/platform.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <pthread.h>
#include <pthread/qos.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sysctl.h>
#include <unistd.h>

namespace mebp::platform {

static int result(bool ok) { return ok ? 0 : errno; }

void prefetchMap(const void *start, uint64_t bytes) { ::madvise(const_cast<void *>(start), bytes, MADV_WILLNEED); }

// There is one cache for maps and files: what is invalidated here is read again from the disk, so it goes there first.
void dropMap(const void *start, int, uint64_t, uint64_t bytes) {
  ::msync(const_cast<void *>(start), bytes, MS_SYNC | MS_INVALIDATE);
  ::madvise(const_cast<void *>(start), bytes, MADV_DONTNEED);
}

int loadMap(const void *, uint64_t) { return 0; }

// fsync stops at the drive's cache; a file system that does not know the other has it alone.
int syncFile(int descriptor) { return ::fcntl(descriptor, F_FULLFSYNC) == 0 ? 0 : result(::fsync(descriptor) == 0); }

void cleanPages(int descriptor) { ::fsync(descriptor); }

int reserve(int descriptor, uint64_t bytes) {
  if (bytes == 0)
    return 0;
  fstore_t room = {F_ALLOCATEALL, F_PEOFPOSMODE, 0, static_cast<off_t>(bytes), 0};
  // A file system that cannot reserve is written to without.
  if (::fcntl(descriptor, F_PREALLOCATE, &room) != 0 && errno != ENOTSUP && errno != EINVAL)
    return errno;
  return result(::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0);
}

void prefetchFile(int descriptor, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t most = 1 << 30; // the count is an int
  radvisory range = {static_cast<off_t>(offset), static_cast<int>(std::min(bytes, most))};
  ::fcntl(descriptor, F_RDADVISE, &range);
}

// It begins by itself.
void startWriting(int, uint64_t, uint64_t) {}

int finishWriting(int descriptor, uint64_t, uint64_t) { return result(::fsync(descriptor) == 0); }

bool isInMemory(int descriptor) {
  struct statfs system;
  return ::fstatfs(descriptor, &system) == 0 && std::strcmp(system.f_fstypename, "tmpfs") == 0;
}

int exchangeNames(const char *first, const char *second) {
  return result(::renamex_np(first, second, RENAME_SWAP) == 0);
}

// What the system's own limit on an application counts.
uint64_t writtenMemoryBytes() {
  task_vm_info_data_t information;
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  const kern_return_t status =
      ::task_info(mach_task_self(), TASK_VM_INFO, reinterpret_cast<task_info_t>(&information), &count);
  return status == KERN_SUCCESS ? information.phys_footprint : 0;
}

template <typename Number> static Number systemNumber(const char *name) {
  Number number = 0;
  size_t bytes = sizeof(number);
  return ::sysctlbyname(name, &number, &bytes, nullptr, 0) == 0 ? number : 0;
}

uint64_t physicalMemoryBytes() { return systemNumber<uint64_t>("hw.memsize"); }

uint32_t availableThreads() {
  const int cores = systemNumber<int>("hw.logicalcpu");
  return cores > 0 ? static_cast<uint32_t>(cores) : 1;
}

// Below this class, threads may be kept on the slow cores.
void beginWorkerThread() { ::pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0); }

uint64_t setTimerSlack(uint64_t) { return 0; }

// A wait for a word is public only from macOS 14.4 and iOS 17.4 on. All words share one condition; who is woken without
// a reason looks at its word again.
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void sleepWhile(const std::atomic<uint32_t> &word, uint32_t value) {
  ::pthread_mutex_lock(&guard);
  if (word.load() == value)
    ::pthread_cond_wait(&changed, &guard);
  ::pthread_mutex_unlock(&guard);
}

void wake(const std::atomic<uint32_t> &, uint32_t) {
  ::pthread_mutex_lock(&guard);
  ::pthread_cond_broadcast(&changed);
  ::pthread_mutex_unlock(&guard);
}

// dyld has a library's real path, and the program's as it was called.
void fileOfCode(const void *code, char *path, size_t room) {
  path[0] = '\0';
  Dl_info found;
  if (!::dladdr(code, &found) || !found.dli_fname)
    return;
  char called[PATH_MAX], real[PATH_MAX];
  uint32_t bytes = sizeof(called);
  const bool isProgram = found.dli_fbase == ::_dyld_get_image_header(0);
  const char *name = !isProgram                                    ? found.dli_fname
                     : ::_NSGetExecutablePath(called, &bytes) == 0 ? ::realpath(called, real)
                                                                   : nullptr;
  if (name && name[0] == '/' && std::strlen(name) < room)
    std::strcpy(path, name);
}

bool hasArmBf16() { return systemNumber<int>("hw.optional.arm.FEAT_BF16") != 0; }

} // namespace mebp::platform
