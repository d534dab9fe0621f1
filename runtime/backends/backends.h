// SPDX-License-Identifier: Apache-2.0
//
// The backends that there are, in this build or in another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mebp/mebp.h"
#include "runtime/exec/backend.h"

namespace mebp {

struct BackendOptions {
  uint32_t threads = 1;          // of a backend that computes on the CPU
  bool referenceKernels = false; // the naive ones, of a backend that has them
};

struct KnownBackend {
  mebp_backend number;
  const char *name;
  bool
      tellsReads; // to an observer, before each call; of one that does not, a limit on the weights in memory is refused
  // A refusal says how to get what this build has not.
  Result<std::unique_ptr<Backend>> (*make)(const BackendOptions &options);
};

// Null where no backend has that number.
const KnownBackend *findBackend(mebp_backend number);
// "the CPU or MLX".
std::string listBackends();

} // namespace mebp
