// SPDX-License-Identifier: Apache-2.0
#include "format/folders.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "platform/platform.h"

namespace mebp::format {

static int result(bool ok) { return ok ? 0 : errno; }

std::string parentOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == path.npos)
    return "";
  while (slash > 0 && path[slash - 1] == '/')
    --slash;
  return path.substr(0, slash == 0 ? 1 : slash);
}

std::string nameOf(const std::string &path) { return path.substr(path.rfind('/') + 1); }

bool isFolder(const std::string &path) {
  struct stat information;
  return ::stat(path.c_str(), &information) == 0 && S_ISDIR(information.st_mode);
}

int listFolder(const std::string &folder, std::vector<std::string> &out) {
  DIR *opened = ::opendir(folder.empty() ? "." : folder.c_str());
  if (!opened)
    return errno;
  errno = 0;
  while (const dirent *entry = ::readdir(opened)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..")
      out.push_back(name);
    errno = 0;
  }
  const int reason = errno;
  ::closedir(opened);
  return reason;
}

// With all that is in it; links are removed, not followed, and neither is one that takes a folder's place meanwhile:
// each name is looked for in the folder that was opened. What is written here is a folder deep, so that deeper ones are
// not ours, and stay.
static void removeBelow(int folder, const char *name, int depth) {
  const int opened = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  DIR *listed = opened >= 0 && depth > 0 ? ::fdopendir(opened) : nullptr;
  while (const dirent *entry = listed ? ::readdir(listed) : nullptr)
    if (const std::string found = entry->d_name; found != "." && found != "..")
      removeBelow(opened, found.c_str(), depth - 1);
  if (listed)
    ::closedir(listed); // and with it the descriptor
  else if (opened >= 0)
    ::close(opened);
  ::unlinkat(folder, name, opened >= 0 ? AT_REMOVEDIR : 0);
}

static void removeAll(const std::string &path) {
  constexpr int deepest = 16;
  removeBelow(AT_FDCWD, path.c_str(), deepest);
}

// In a folder that others may write to, such as /tmp, one by a name of ours may be anybody's.
static bool isOwn(const struct stat &information) { return information.st_uid == ::geteuid(); }

static bool isOwnFolder(const std::string &path) {
  struct stat information;
  return ::lstat(path.c_str(), &information) == 0 && S_ISDIR(information.st_mode) && isOwn(information);
}

static bool exists(const std::string &path) {
  struct stat information;
  return ::lstat(path.c_str(), &information) == 0;
}

std::string userPath(const std::string &path) {
  const char *home = std::getenv("HOME");
  bool names = path == "~" || path.rfind("~/", 0) == 0;
  return names && home ? home + path.substr(1) : path;
}

std::string cacheFolder() {
  if (const char *cache = std::getenv("MEBP_CACHE"); cache && *cache)
    return cache;
  const char *home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/mebp" : "";
}

int syncFile(int descriptor) { return platform::syncFile(descriptor); }

int syncFolder(const std::string &folder) {
  int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return errno;
  // Some file systems cannot sync a folder and say EINVAL; the names themselves are there.
  int reason = platform::syncFile(descriptor);
  ::close(descriptor);
  return reason == EINVAL ? 0 : reason;
}

int makeFolders(const std::string &folder) {
  if (folder.empty() || isFolder(folder))
    return 0;
  std::string parent = parentOf(folder);
  if (int reason = parent == folder ? ENOENT : makeFolders(parent))
    return reason;
  if (nameOf(folder).empty()) // a/b/
    return 0;
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno != EEXIST)
      return errno;
    if (!isFolder(folder)) // otherwise another process was faster
      return ENOTDIR;
  }
  return syncFolder(parent);
}

int freeBytes(const std::string &folder, uint64_t &out, uint64_t &device) {
  struct statvfs information;
  struct stat named;
  std::string place = folder;
  while (::stat(place.c_str(), &named) != 0 && !place.empty() && place != "/")
    place = parentOf(place);
  if (place.empty())
    place = ".";
  if (::statvfs(place.c_str(), &information) != 0 || ::stat(place.c_str(), &named) != 0)
    return errno;
  device = named.st_dev;
  out = uint64_t(information.f_bavail) * information.f_frsize;
  return 0;
}

static std::string withoutFinalSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

FolderReplacement::FolderReplacement(std::string target) : target(withoutFinalSlash(std::move(target))) {}

FolderReplacement::~FolderReplacement() {
  if (!path.empty())
    removeAll(path); // what was not put in place, or the old one that was
  if (descriptor >= 0)
    ::close(descriptor);
}

// Opens a folder of this user's that is nobody's link and takes its lock; -1 where somebody else has it.
static int openLocked(const std::string &folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat information;
  if (descriptor >= 0 && ::fstat(descriptor, &information) == 0 && isOwn(information) &&
      ::flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    return descriptor;
  if (descriptor >= 0)
    ::close(descriptor);
  return -1;
}

// What nobody has locked has no owner any more.
void FolderReplacement::removeLeftovers() const {
  const std::string name = nameOf(target), before = target.substr(0, target.size() - name.size());
  std::vector<std::string> names, writing, replaced;
  listFolder(parentOf(target), names);
  for (const std::string &found : names) {
    if (found.rfind(name + ".writing-", 0) == 0)
      writing.push_back(before + found);
    if (found.rfind(name + ".replaced-", 0) == 0 && isOwnFolder(before + found))
      replaced.push_back(before + found);
  }
  // One killed between two renames: the old folder is the whole one.
  if (!exists(target) && replaced.size() == 1)
    ::rename(replaced.front().c_str(), target.c_str());
  else
    writing.insert(writing.end(), replaced.begin(), replaced.end());
  for (const std::string &leftover : writing)
    if (int descriptor = openLocked(leftover); descriptor >= 0) {
      removeAll(leftover);
      ::close(descriptor);
    }
}

int FolderReplacement::makeLocked() {
  // Somebody who removes leftovers may come between making and locking: then the name is gone, and the next is tried.
  for (int number = 0; number < 100; ++number) {
    std::string name = target + ".writing-" + std::to_string(::getpid()) + (number ? "-" + std::to_string(number) : "");
    if (::mkdir(name.c_str(), 0777) != 0) {
      if (errno == EEXIST)
        continue;
      return errno;
    }
    struct stat named, opened;
    descriptor = openLocked(name);
    if (descriptor >= 0 && ::fstat(descriptor, &opened) == 0 && ::lstat(name.c_str(), &named) == 0 &&
        named.st_ino == opened.st_ino) {
      path = name;
      return 0;
    }
    if (descriptor >= 0)
      ::close(descriptor);
    descriptor = -1;
  }
  return EEXIST;
}

int FolderReplacement::open() {
  removeLeftovers();
  return makeLocked();
}

// On a file system that cannot exchange names. One killed in between is put right by the next writer.
int FolderReplacement::replaceByTwoRenames() const {
  std::string old = target + ".replaced-" + std::to_string(::getpid());
  if (::rename(target.c_str(), old.c_str()) != 0)
    return errno;
  int reason = result(::rename(path.c_str(), target.c_str()) == 0);
  if (reason != 0)
    ::rename(old.c_str(), target.c_str());
  if (reason == 0)
    removeAll(old);
  return reason;
}

int FolderReplacement::replace() {
  if (int reason = syncFolder(path))
    return reason;
  int reason = exists(target) ? platform::exchangeNames(path.c_str(), target.c_str())
                              : result(::rename(path.c_str(), target.c_str()) == 0);
  if (reason == ENOTSUP)
    reason = replaceByTwoRenames();
  return reason ? reason : syncFolder(parentOf(target));
}

} // namespace mebp::format
