// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/device_claim.h"

#include <algorithm>
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
  return own && *own == '/' ? std::string(own) + "/mebp" : "/tmp/mebp-" + std::to_string(::geteuid());
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

// A folder of this user, who alone may write to it and look into it, and no link to one.
static bool isOwn(const std::string &folder) {
  struct stat named;
  return ::lstat(folder.c_str(), &named) == 0 && S_ISDIR(named.st_mode) && named.st_uid == ::geteuid() &&
         (named.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

// The claim in a file that a living process holds; 0, and the file gone, where none does.
static uint64_t readClaim(const std::string &path) {
  const int opened = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0)
    return 0;
  uint64_t bytes = 0;
  struct stat information;
  if (::fstat(opened, &information) != 0 || !S_ISREG(information.st_mode)) {
    // A pipe, which is nobody's claim.
  } else if (::flock(opened, LOCK_SH | LOCK_NB) == 0) {
    ::unlink(path.c_str());
  } else {
    char text[32] = {};
    if (::read(opened, text, sizeof(text) - 1) > 0)
      bytes = std::strtoull(text, nullptr, 10);
  }
  ::close(opened);
  return bytes;
}

static bool isNumber(const std::string &text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// Of a file DEVICE.PROCESS.NUMBER, which a message may name; "" of what is called otherwise.
static std::string processOf(const std::string &name, const std::string &device) {
  const size_t begin = device.size() + 1, end = name.find('.', begin);
  if (name.rfind(device + ".", 0) != 0 || end == name.npos)
    return "";
  const std::string process = name.substr(begin, end - begin);
  return isNumber(process) && isNumber(name.substr(end + 1)) ? process : "";
}

static Others readOthers(const std::string &folder, const std::string &device, const std::string &own) {
  Others others;
  std::vector<std::string> names;
  format::listFolder(folder, names); // one that cannot be read has none
  for (const std::string &name : names) {
    const std::string path = folder + "/" + name;
    const std::string process = processOf(name, device);
    if (process.empty() || path == own)
      continue;
    const uint64_t bytes = readClaim(path);
    others.bytes += std::min(bytes, UINT64_MAX - others.bytes);
    if (bytes > others.largest) {
      others.largest = bytes;
      others.process = process;
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
  const bool isMissing = ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST;
  if (!isMissing && !isOwn(folder))
    said = folder + ": is not a folder of this user alone, so other runs on the device are not seen; remove it, or set "
                    "XDG_RUNTIME_DIR to a folder of yours";
  if (isMissing || !said.empty())
    return Status();
  const std::string path =
      folder + "/" + device + "." + std::to_string(::getpid()) + "." + std::to_string(number.fetch_add(1));
  if (!write(path, bytes) || !total)
    return Status();
  const Others others = readOthers(folder, device, path);
  if (others.bytes <= total - bytes)
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
