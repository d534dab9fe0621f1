// SPDX-License-Identifier: Apache-2.0
//
// The devices that a session may run on, each with the backend that drives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mebp/mebp.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/device.h"
#include "runtime/exec/routes.h"

namespace mebp {

struct BackendOptions {
  uint32_t threads = 1;          // of a backend that computes on the CPU
  bool referenceKernels = false; // the naive ones, of a backend that has them
  Routes routes;                 // that a device may take
};

struct KnownBackend {
  mebp_backend number;
  const char *name;
  // To an observer, before each call. Of one that does not, a limit on the weights in memory is refused.
  bool tellsReads;
  // Drivers and libraries that are not ours compute there. A session asks the self-test before it trusts them; and
  // since they may fail in the middle of a step, no gradient is applied before all are there.
  bool isForeign;
  Device (*look)();
  // A refusal says how to get what is not there.
  Result<std::unique_ptr<Backend>> (*make)(const BackendOptions &options);
};

const KnownBackend *findBackend(mebp_backend number); // null where there is none
const KnownBackend *findBackend(std::string_view name);
const KnownBackend *backendAt(size_t index); // null behind the last
Status refuseNumber(mebp_backend number);    // that no device has
// As a person calls it.
Status findDevice(const char *name, mebp_backend &out);
std::string listBackends(); // "cpu, mlx or mlx-cpu"

} // namespace mebp
