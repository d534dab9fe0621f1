// SPDX-License-Identifier: Apache-2.0
//
// Keeps what a run writes to that run. The lock is a file that ends with the process, however that ends: DIR/.lock in a
// folder, .NAME.lock beside a file.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/status.h"

namespace mebp {

// Opens the file, made where it is not there, and keeps a lock on it that ends with the descriptor: 0 or an errno,
// EWOULDBLOCK where another process has it.
int openLocked(const std::string &path, uint32_t permissions, int &descriptor);

class Lock {
public:
  Lock() = default;
  Lock(const Lock &) = delete;
  ~Lock();

  // Makes the folder where it is not there; one that is still empty at the end goes with the lock. MEBP_BUSY where
  // another run has the lock.
  Status takeFolder(const std::string &folder);
  Status takeFile(const std::string &path);

private:
  Status take(const std::string &lockFile, const std::string &what, const char *kind);

  std::string file, made;
  int descriptor = -1;
};

} // namespace mebp
