// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/device_claim.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/folders.h"
#include "runtime/core/lock.h"

namespace mebp {

namespace {

struct Others {
  uint64_t bytes = 0;
  std::string process; // of the largest claim
  uint64_t largest = 0;
};

} // namespace

void DeviceClaim::giveBack() {
  if (descriptor < 0)
    return;
  ::unlink(file.c_str());
  ::close(descriptor);
  descriptor = -1;
}

std::string DeviceClaim::sharedFolder() {
  const char *own = std::getenv("XDG_RUNTIME_DIR");
  return own && *own ? std::string(own) + "/mebp" : "/tmp/mebp-" + std::to_string(::getuid());
}

bool DeviceClaim::write(const std::string &path, uint64_t bytes) {
  // Whoever looks whether a file is locked has it locked for that moment.
  constexpr int mostLookers = 16;
  int reason = EWOULDBLOCK;
  for (int attempt = 0; attempt < mostLookers && reason == EWOULDBLOCK; ++attempt)
    reason = openLocked(path, 0600, descriptor);
  if (reason != 0)
    return false;
  file = path;
  const std::string text = std::to_string(bytes);
  return ::ftruncate(descriptor, 0) == 0 &&
         ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// The claim in a file that a living process holds; 0, and the file gone, where none does.
static uint64_t readClaim(const std::string &path) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0)
    return 0;
  uint64_t bytes = 0;
  if (::flock(opened, LOCK_SH | LOCK_NB) == 0) {
    ::unlink(path.c_str());
  } else {
    char text[32] = {};
    if (::read(opened, text, sizeof(text) - 1) > 0)
      bytes = std::strtoull(text, nullptr, 10);
  }
  ::close(opened);
  return bytes;
}

// Files are named DEVICE.PROCESS.NUMBER.
static Others readOthers(const std::string &folder, const std::string &device, const std::string &own) {
  Others others;
  std::vector<std::string> names;
  format::listFolder(folder, names); // one that cannot be read has none
  for (const std::string &name : names) {
    const std::string path = folder + "/" + name;
    if (name.rfind(device + ".", 0) != 0 || path == own)
      continue;
    const uint64_t bytes = readClaim(path);
    others.bytes += bytes;
    if (bytes > others.largest) {
      others.largest = bytes;
      others.process = name.substr(device.size() + 1, name.rfind('.') - device.size() - 1);
    }
  }
  return others;
}

Status DeviceClaim::take(const std::string &device, uint64_t bytes, uint64_t total, const std::string &folder) {
  const double gigabyte = 1e9;
  if (total && bytes > total)
    return failure(MEBP_OUT_OF_MEMORY,
                   "this run needs at least %.2f GB of the device '%s', which has %.2f GB; compile with fewer bits "
                   "(--weights) or a smaller --memory-budget",
                   static_cast<double>(bytes) / gigabyte, device.c_str(), static_cast<double>(total) / gigabyte);
  static std::atomic<uint32_t> number{0};
  if (::mkdir(folder.c_str(), 0700) != 0 && ::access(folder.c_str(), W_OK) != 0)
    return Status();
  const std::string path =
      folder + "/" + device + "." + std::to_string(::getpid()) + "." + std::to_string(number.fetch_add(1));
  if (!write(path, bytes) || !total)
    return Status();
  const Others others = readOthers(folder, device, path);
  if (others.bytes + bytes <= total)
    return Status();
  giveBack();
  return failure(
      MEBP_OUT_OF_MEMORY,
      "the device '%s' has %.2f GB, of which other runs have planned %.2f GB (process %s the most), and this "
      "one needs at least %.2f GB; wait until that ends, or compile with fewer bits (--weights) or a smaller "
      "--memory-budget",
      device.c_str(), static_cast<double>(total) / gigabyte, static_cast<double>(others.bytes) / gigabyte,
      others.process.c_str(), static_cast<double>(bytes) / gigabyte);
}

} // namespace mebp
