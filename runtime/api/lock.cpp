// SPDX-License-Identifier: Apache-2.0
//
// mebp.h's functions about locks.
#include "runtime/core/lock.h"

#include <memory>

#include "runtime/core/edge.h"

using namespace mebp;

struct mebp_lock {
  Lock lock;
};

static mebp_code take(Status (Lock::*how)(const std::string &), const char *path, mebp_lock **out, mebp_error *error) {
  if (out)
    *out = nullptr;
  return guarded(error, {{"path", path}, {"out", out}}, [&] {
    auto taken = std::make_unique<mebp_lock>();
    Status status = (taken->lock.*how)(path);
    if (status.ok())
      *out = taken.release();
    return status;
  });
}

mebp_code mebp_lock_folder(const char *folder, mebp_lock **out, mebp_error *error) {
  return take(&Lock::takeFolder, folder, out, error);
}

mebp_code mebp_lock_file(const char *path, mebp_lock **out, mebp_error *error) {
  return take(&Lock::takeFile, path, out, error);
}

void mebp_lock_release(mebp_lock *lock) { delete lock; }
