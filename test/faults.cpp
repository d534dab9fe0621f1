// SPDX-License-Identifier: Apache-2.0
//
// Loaded before a program (LD_PRELOAD), counts what it does to files below MEBP_FAULT_ROOT and lets one of these calls
// fail: the MEBP_FAULT_AT-th, as MEBP_FAULT says: "short" (half of a write is written), "ENOSPC", "EIO" or "kill" (in
// the middle of a write, before any other call). Their number goes to the file MEBP_FAULT_COUNT when the program ends.
// MEBP_FREE_BYTES is what statvfs says is free. It stands before functions of glibc; elsewhere nothing is in it.
#include <cstdlib>
#ifdef __GLIBC__
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

enum class Fault { None, Short, NoSpace, Io, Kill };

std::atomic<long> calls{0};

const char *setting(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool isBelowRoot(const std::string &path) {
  static const std::string root = setting("MEBP_FAULT_ROOT");
  return !root.empty() && path.compare(0, root.size(), root) == 0;
}

std::string linkOf(const std::string &name) {
  char target[4096];
  ssize_t length = ::readlink(name.c_str(), target, sizeof(target));
  return length < 0 ? std::string() : std::string(target, static_cast<size_t>(length));
}

std::string pathOf(int descriptor) { return linkOf("/proc/self/fd/" + std::to_string(descriptor)); }

std::string pathAt(int folder, const char *path) {
  if (path[0] == '/')
    return path;
  return (folder == AT_FDCWD ? linkOf("/proc/self/cwd") : pathOf(folder)) + "/" + path;
}

Fault next(const std::string &path) {
  static const long at = std::atol(setting("MEBP_FAULT_AT"));
  static const std::string kind = setting("MEBP_FAULT");
  if (!isBelowRoot(path) || ++calls != at)
    return Fault::None;
  return kind == "short" ? Fault::Short : kind == "ENOSPC" ? Fault::NoSpace : kind == "EIO" ? Fault::Io : Fault::Kill;
}

// Whether the call is to go on; otherwise errno says why not.
bool goesOn(const std::string &path) {
  switch (next(path)) {
  case Fault::NoSpace:
    errno = ENOSPC;
    return false;
  case Fault::Io:
    errno = EIO;
    return false;
  case Fault::Kill:
    ::kill(::getpid(), SIGKILL);
    return false;
  default:
    return true;
  }
}

template <typename Function> Function real(Function, const char *name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// `half` writes the first half.
template <typename Half> bool writes(int descriptor, size_t size, Half half, ssize_t &result) {
  Fault fault = next(pathOf(descriptor));
  if (fault == Fault::None)
    return true;
  if (fault == Fault::NoSpace || fault == Fault::Io) {
    errno = fault == Fault::Io ? EIO : ENOSPC;
    result = -1;
    return false;
  }
  result = half(size > 1 ? size / 2 : size);
  if (fault == Fault::Kill)
    ::kill(::getpid(), SIGKILL);
  return false;
}

struct Report {
  ~Report() {
    const char *path = setting("MEBP_FAULT_COUNT");
    if (!*path)
      return;
    if (FILE *file = std::fopen(path, "w")) {
      std::fprintf(file, "%ld\n", calls.load());
      std::fclose(file);
    }
  }
} report;

} // namespace

#define MEBP_REAL(name) real(&::name, #name)

extern "C" {

ssize_t write(int descriptor, const void *data, size_t size) {
  static auto call = MEBP_REAL(write);
  ssize_t result;
  return writes(
             descriptor, size, [&](size_t half) { return call(descriptor, data, half); }, result)
             ? call(descriptor, data, size)
             : result;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
  static auto call = MEBP_REAL(pwrite);
  ssize_t result;
  return writes(
             descriptor, size, [&](size_t half) { return call(descriptor, data, half, offset); }, result)
             ? call(descriptor, data, size, offset)
             : result;
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
  return pwrite(descriptor, data, size, offset);
}

int openat(int folder, const char *path, int flags, ...) {
  static auto call = MEBP_REAL(openat);
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
    if ((flags & O_CREAT) && !goesOn(pathAt(folder, path)))
      return -1;
  }
  return call(folder, path, flags, mode);
}
int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return openat(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return openat(AT_FDCWD, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return openat(folder, path, flags, mode);
}

int fsync(int descriptor) {
  static auto call = MEBP_REAL(fsync);
  return goesOn(pathOf(descriptor)) ? call(descriptor) : -1;
}
int fdatasync(int descriptor) {
  static auto call = MEBP_REAL(fdatasync);
  return goesOn(pathOf(descriptor)) ? call(descriptor) : -1;
}
int ftruncate(int descriptor, off_t size) {
  static auto call = MEBP_REAL(ftruncate);
  return goesOn(pathOf(descriptor)) ? call(descriptor, size) : -1;
}
int ftruncate64(int descriptor, off64_t size) { return ftruncate(descriptor, size); }

int rename(const char *from, const char *to) {
  static auto call = MEBP_REAL(rename);
  return goesOn(pathAt(AT_FDCWD, to)) ? call(from, to) : -1;
}
int renameat2(int fromFolder, const char *from, int toFolder, const char *to, unsigned flags) {
  static auto call = MEBP_REAL(renameat2);
  return goesOn(pathAt(toFolder, to)) ? call(fromFolder, from, toFolder, to, flags) : -1;
}
int link(const char *from, const char *to) {
  static auto call = MEBP_REAL(link);
  return goesOn(pathAt(AT_FDCWD, to)) ? call(from, to) : -1;
}
int unlink(const char *path) {
  static auto call = MEBP_REAL(unlink);
  return goesOn(pathAt(AT_FDCWD, path)) ? call(path) : -1;
}
int unlinkat(int folder, const char *path, int flags) {
  static auto call = MEBP_REAL(unlinkat);
  return goesOn(pathAt(folder, path)) ? call(folder, path, flags) : -1;
}
int rmdir(const char *path) {
  static auto call = MEBP_REAL(rmdir);
  return goesOn(pathAt(AT_FDCWD, path)) ? call(path) : -1;
}
int mkdir(const char *path, mode_t mode) {
  static auto call = MEBP_REAL(mkdir);
  return goesOn(pathAt(AT_FDCWD, path)) ? call(path, mode) : -1;
}

int statvfs(const char *path, struct statvfs *out) {
  static auto call = MEBP_REAL(statvfs);
  int result = call(path, out);
  if (const char *free = setting("MEBP_FREE_BYTES"); *free)
    out->f_bavail = static_cast<fsblkcnt_t>(std::atoll(free)) / out->f_frsize;
  return result;
}
int statvfs64(const char *path, struct statvfs64 *out) {
  return statvfs(path, reinterpret_cast<struct statvfs *>(out));
}

} // extern "C"

#endif
