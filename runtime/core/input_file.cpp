// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/input_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/core/system_failure.h"

namespace mebp {

InputFile::InputFile(InputFile &&other) noexcept { *this = std::move(other); }

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(called, other.called);
  std::swap(number, other.number);
  std::swap(begin, other.begin);
  std::swap(length, other.length);
  return *this;
}

InputFile::~InputFile() {
  if (number >= 0)
    ::close(number);
}

Status InputFile::takeSize() {
  struct stat information;
  if (number < 0 || ::fstat(number, &information) != 0)
    return systemFailure(called, "open", errno);
  if (!S_ISREG(information.st_mode))
    return failure(MEBP_IO, "%s: is not a regular file", called.c_str());
  length = static_cast<uint64_t>(information.st_size);
  return Status();
}

Result<InputFile> InputFile::open(const std::string &path) {
  InputFile file;
  file.called = path;
  // Without O_NONBLOCK, opening a pipe would wait for who writes to it.
  file.number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (Status status = file.takeSize(); !status.ok())
    return status;
  return file;
}

Result<InputFile> InputFile::part(const std::string &name, int descriptor, uint64_t offset, uint64_t length) {
  InputFile file;
  file.called = name;
  file.number = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (Status status = file.takeSize(); !status.ok())
    return status;
  uint64_t left = file.length - std::min(offset, file.length);
  if (left == 0 || length > left)
    return failure(MEBP_INVALID_ARGUMENT, "%s: %llu bytes at %llu were asked for, and the file has %llu", name.c_str(),
                   static_cast<unsigned long long>(length), static_cast<unsigned long long>(offset),
                   static_cast<unsigned long long>(file.length));
  file.begin = offset;
  file.length = length ? length : left;
  return file;
}

Status InputFile::read(uint64_t offset, void *data, uint64_t bytes) const {
  auto *to = static_cast<unsigned char *>(data);
  for (uint64_t done = 0; done < bytes;) {
    ssize_t count = ::pread(number, to + done, bytes - done, static_cast<off_t>(begin + offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemFailure(called, "read", errno);
    if (count == 0)
      return failure(MEBP_IO, "%s: became shorter while it was read", called.c_str());
    done += static_cast<uint64_t>(count);
  }
  return Status();
}

Result<std::string> InputFile::readAll(uint64_t largest) const {
  if (length > largest)
    return failure(MEBP_CORRUPT, "%s: %llu bytes are more than such a file can have", called.c_str(),
                   static_cast<unsigned long long>(length));
  std::string content(length, '\0');
  if (Status status = read(0, content.data(), length); !status.ok())
    return status;
  return content;
}

} // namespace mebp
