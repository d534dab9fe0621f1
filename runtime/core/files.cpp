// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "format/folders.h"
#include "platform/platform.h"
#include "runtime/core/system_failure.h"

namespace mebp {

Result<std::string> readFile(const std::string &path, uint64_t largest) {
  Result<InputFile> file = InputFile::open(path);
  return file.ok() ? file->readAll(largest) : file.status();
}

Result<uint64_t> fileSize(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  return file->size();
}

Status makeFolder(const std::string &path) {
  if (int reason = format::makeFolders(path))
    return failure(MEBP_IO, "%s: cannot make this folder: %s", path.c_str(), std::strerror(reason));
  return Status();
}

Status checkSpace(const std::vector<DiskUse> &uses) {
  for (const DiskUse &use : uses) {
    uint64_t available = 0, device = 0, needed = 0, other = 0, otherDevice = 0;
    if (format::freeBytes(use.folder, available, device) != 0)
      continue; // who cannot be asked is tried
    for (const DiskUse &each : uses)
      if (format::freeBytes(each.folder, other, otherDevice) == 0 && otherDevice == device)
        needed += each.bytes;
    if (needed > available)
      return failure(MEBP_IO,
                     "%s: the run writes up to %.1f MB to this disk and %.1f MB are free; make room or choose "
                     "another folder",
                     use.folder.c_str(), static_cast<double>(needed) / 1e6, static_cast<double>(available) / 1e6);
  }
  return Status();
}

MappedFile::MappedFile(MappedFile &&other) noexcept { *this = std::move(other); }

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(file, other.file);
  std::swap(bytes, other.bytes);
  std::swap(watched, other.watched);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes)
    platform::unmap(const_cast<unsigned char *>(bytes) - bytesBefore(0), file.size() + bytesBefore(0));
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  return file.ok() ? map(std::move(*file)) : file.status();
}

// A map begins with a page.
Result<MappedFile> MappedFile::map(InputFile given) {
  MappedFile mapped;
  mapped.file = std::move(given);
  const InputFile &file = mapped.file;
  if (file.size() == 0)
    return mapped;
  uint64_t before = mapped.bytesBefore(0);
  void *start = platform::mapFile(file.descriptor(), file.offset() - before, file.size() + before);
  if (!start)
    return systemFailure(file.name(), "map", errno);
  mapped.bytes = static_cast<const unsigned char *>(start) + before;
  mapped.watched.begin(start, file.size() + before);
  return mapped;
}

uint64_t MappedFile::bytesBefore(uint64_t offset) const { return (file.offset() + offset) % platform::pageBytes(); }

// Advice that the system cannot take changes nothing, so nobody asks how it went.
void MappedFile::adviseIn(uint64_t offset, uint64_t count) const {
  uint64_t before = bytesBefore(offset);
  platform::prefetchMap(bytes + offset - before, count + before);
}

void MappedFile::sync() const { platform::cleanPages(file.descriptor()); }

void MappedFile::adviseOut(uint64_t offset, uint64_t count) const {
  uint64_t before = bytesBefore(offset);
  platform::dropMap(bytes + offset - before, file.descriptor(), file.offset() + offset - before, count + before);
}

FileReplacement::~FileReplacement() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

void FileReplacement::fail(const char *what) { failed = systemFailure(target, what, errno); }

// The temporary name is fixed, so that what a killed run leaves behind is gone with the next. It is made anew: whatever
// else has that name, a link to elsewhere too, is removed and not written to.
FileReplacement::FileReplacement(const std::string &path) : target(path), temporary(path + ".new") {
  ::unlink(temporary.c_str());
  descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor >= 0)
    return;
  fail("write");
  temporary.clear();
}

void FileReplacement::write(const void *data, uint64_t size) {
  const auto *bytes = static_cast<const unsigned char *>(data);
  while (size && failed.ok()) {
    ssize_t count = ::write(descriptor, bytes, std::min<uint64_t>(size, uint64_t(1) << 30));
    if (count < 0 && errno != EINTR)
      fail("write");
    if (count < 0)
      continue;
    bytes += count;
    size -= static_cast<uint64_t>(count);
  }
}

Status FileReplacement::sync() {
  if (int reason = failed.ok() ? platform::syncFile(descriptor) : 0)
    failed = systemFailure(target, "write", reason);
  return failed;
}

Status FileReplacement::syncFolder() const {
  int reason = format::syncFolder(format::parentOf(target));
  return reason ? systemFailure(target, "sync the folder of", reason) : Status();
}

Status FileReplacement::replace() {
  if (!failed.ok())
    return failed;
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    return systemFailure(target, "replace", errno);
  temporary.clear();
  return syncFolder();
}

Status FileReplacement::replaceAndKeep(const std::string &name) {
  if (!failed.ok())
    return failed;
  int reason = platform::exchangeNames(temporary.c_str(), target.c_str());
  if (reason != 0 && reason != ENOTSUP)
    return systemFailure(target, "replace", reason);
  bool exchanged = reason == 0;
  if (::rename(exchanged ? temporary.c_str() : target.c_str(), name.c_str()) != 0)
    return systemFailure(name, "replace", errno);
  if (!exchanged)
    return replace();
  temporary.clear();
  return syncFolder();
}

} // namespace mebp
