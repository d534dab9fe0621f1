// SPDX-License-Identifier: Apache-2.0
//
// A backend in a library of its own, which is opened when somebody asks for it. Its one symbol gives this table.
// Both sides are compiled from one state of the sources: C++ objects cross.
#pragma once

#include <memory>

#include "runtime/core/status.h"
#include "runtime/exec/backend.h"
#include "runtime/exec/device.h"
#include "runtime/exec/routes.h"

namespace mebp {

enum class Processor { Cpu, Gpu };

struct BackendLibrary {
  const char *version; // of mebp, which the library was built with
  Device (*look)(Processor processor);
  Result<std::unique_ptr<Backend>> (*make)(Processor processor, const Routes &routes);
};

using GetBackendLibrary = const BackendLibrary *();
constexpr const char *backendLibrarySymbol = "mebp_backend_library";

} // namespace mebp
