// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/spill_file.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include "platform/platform.h"
#include "runtime/core/files.h"
#include "runtime/core/system_failure.h"

namespace mebp {

SpillFile::~SpillFile() {
  if (map)
    platform::unmap(map, mapBytes);
  if (descriptor >= 0)
    ::close(descriptor);
}

const char *SpillFile::defaultFolder() {
  const char *named = std::getenv("TMPDIR");
  return named && *named ? named : "/var/tmp";
}

Status SpillFile::open(const std::string &folder, uint64_t bytes, uint64_t mapped) {
  place = folder;
  std::string path = folder + "/mebp-spill-XXXXXX";
  descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0)
    return systemFailure(folder, "make a file here", errno);
  ::unlink(path.c_str());
  if (platform::isInMemory(descriptor))
    return failure(MEBP_INVALID_ARGUMENT,
                   "%s: files here are in memory, so spilling would save none; choose a folder on a disk",
                   folder.c_str());
  if (int reason = bytes ? platform::reserve(descriptor, bytes) : 0)
    return systemFailure(folder, ("reserve " + std::to_string(bytes) + " bytes").c_str(), reason);
  if (mapped == 0)
    return Status();
  void *pages = platform::mapFile(descriptor, 0, mapped);
  if (!pages)
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

void SpillFile::readAhead(uint64_t offset, uint64_t bytes) const { platform::prefetchFile(descriptor, offset, bytes); }

void SpillFile::writeBack(uint64_t offset, uint64_t bytes) const { platform::startWriting(descriptor, offset, bytes); }

Status SpillFile::prepareRead(uint64_t offset, uint64_t bytes) const {
  if (int reason = platform::finishWriting(descriptor, offset, bytes))
    return systemFailure(place, "write what is spilled", reason);
  if (int reason = platform::loadMap(map + offset, bytes))
    return systemFailure(place, "read what was spilled", reason);
  return Status();
}

void SpillFile::drop(uint64_t offset, uint64_t bytes) const {
  platform::dropMap(map + offset, descriptor, offset, bytes);
}

} // namespace mebp
