// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/folders.h"
#include "runtime/core/files.h"
#include "runtime/core/system_failure.h"

namespace mebp {

int openLocked(const std::string &path, uint32_t permissions, int &descriptor) {
  for (;;) {
    // Without O_NONBLOCK it would wait for a pipe's other end, or for who has a lease on the file.
    descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, permissions);
    if (descriptor < 0)
      return errno;
    const int reason = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    struct stat opened, named;
    if (reason == 0 && ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev)
      return 0;
    ::close(descriptor);
    descriptor = -1;
    if (reason != 0)
      return reason;
    // Its last holder has removed the file in between: take a new one.
  }
}

Lock::~Lock() {
  if (descriptor >= 0) {
    // While it is still held, so that nobody loses a lock just taken.
    ::unlink(file.c_str());
    ::close(descriptor);
  }
  if (!made.empty())
    ::rmdir(made.c_str());
}

Status Lock::takeFolder(const std::string &folder) {
  struct stat information;
  bool isNew = ::stat(folder.c_str(), &information) != 0;
  if (Status status = makeFolder(folder); !status.ok())
    return status;
  if (isNew)
    made = folder;
  return take(folder + "/.lock", folder, "folder");
}

Status Lock::takeFile(const std::string &path) {
  const std::string name = format::nameOf(path);
  return take(path.substr(0, path.size() - name.size()) + "." + name + ".lock", path, "file");
}

Status Lock::take(const std::string &lockFile, const std::string &what, const char *kind) {
  const int reason = openLocked(lockFile, 0666, descriptor);
  if (reason == EWOULDBLOCK)
    return failure(MEBP_BUSY, "%s: another run uses this %s; wait until it ends or choose another", what.c_str(), kind);
  if (reason != 0)
    return systemFailure(what, "lock", reason);
  file = lockFile;
  return Status();
}

} // namespace mebp
