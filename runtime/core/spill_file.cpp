// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/spill_file.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "runtime/core/files.h"

namespace mebp {

SpillFile::~SpillFile() {
  if (map)
    ::munmap(map, mapBytes);
  if (descriptor >= 0)
    ::close(descriptor);
}

const char *SpillFile::defaultFolder() {
  const char *named = std::getenv("TMPDIR");
  return named && *named ? named : "/var/tmp";
}

static bool isInMemory(int descriptor) {
  struct statfs system;
  return ::fstatfs(descriptor, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

Status SpillFile::open(const std::string &folder, uint64_t bytes, uint64_t mapped) {
  place = folder;
  std::string path = folder + "/mebp-spill-XXXXXX";
  descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0)
    return systemFailure(folder, "make a file here", errno);
  ::unlink(path.c_str());
  if (isInMemory(descriptor))
    return failure(MEBP_INVALID_ARGUMENT,
                   "%s: files here are in memory, so spilling would save none; choose a folder on a disk",
                   folder.c_str());
  if (int reason = bytes == 0 ? 0 : ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)))
    return systemFailure(folder, ("reserve " + std::to_string(bytes) + " bytes").c_str(), reason);
  if (mapped == 0)
    return Status();
  void *pages = ::mmap(nullptr, mapped, PROT_READ, MAP_SHARED, descriptor, 0);
  if (pages == MAP_FAILED)
    return systemFailure(folder, "map a file here", errno);
  map = static_cast<unsigned char *>(pages);
  mapBytes = mapped;
  return Status();
}

Status SpillFile::write(uint64_t offset, const void *data, uint64_t bytes) {
  const auto *from = static_cast<const unsigned char *>(data);
  for (uint64_t done = 0; done < bytes;) {
    ssize_t count = ::pwrite(descriptor, from + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemFailure(place, "write what is spilled", errno);
    done += static_cast<uint64_t>(count);
  }
  written += bytes;
  return Status();
}

Status SpillFile::read(uint64_t offset, void *data, uint64_t bytes) const {
  auto *to = static_cast<unsigned char *>(data);
  for (uint64_t done = 0; done < bytes;) {
    ssize_t count = ::pread(descriptor, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) // the end has been reached only where somebody has cut the file
      return systemFailure(place, "read what was spilled", count < 0 ? errno : EIO);
    done += static_cast<uint64_t>(count);
  }
  return Status();
}

void SpillFile::readAhead(uint64_t offset, uint64_t bytes) const {
  ::posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

void SpillFile::writeBack(uint64_t offset, uint64_t bytes) const {
  ::sync_file_range(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
}

Status SpillFile::prepareRead(uint64_t offset, uint64_t bytes) const {
  constexpr unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  // A file system that cannot wait for a range still has what was written.
  if (::sync_file_range(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), all) != 0 &&
      (errno == EIO || errno == ENOSPC))
    return systemFailure(place, "write what is spilled", errno);
#ifdef MADV_POPULATE_READ
  // An older kernel does not know this; then the first touch reads.
  if (::madvise(map + offset, bytes, MADV_POPULATE_READ) != 0 && errno == EFAULT)
    return systemFailure(place, "read what was spilled", EIO);
#endif
  return Status();
}

void SpillFile::drop(uint64_t offset, uint64_t bytes) const {
  ::madvise(map + offset, bytes, MADV_DONTNEED);
  ::posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

} // namespace mebp
