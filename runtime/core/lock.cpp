// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/folders.h"
#include "runtime/core/files.h"

namespace mebp {

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
  for (;;) {
    descriptor = ::open(lockFile.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0)
      return systemFailure(what, "lock", errno);
    int reason = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    struct stat opened, named;
    if (reason == 0 && ::fstat(descriptor, &opened) == 0 && ::lstat(lockFile.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
      file = lockFile;
      return Status();
    }
    ::close(descriptor);
    descriptor = -1;
    if (reason == EWOULDBLOCK)
      return failure(MEBP_BUSY, "%s: another run uses this %s; wait until it ends or choose another", what.c_str(),
                     kind);
    if (reason != 0)
      return systemFailure(what, "lock", reason);
    // Its last holder has removed the file in between: take a new one.
  }
}

} // namespace mebp
