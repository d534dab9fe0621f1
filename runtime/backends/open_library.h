// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/exec/backend_library.h"

namespace mebp {

// The library of the MLX backend, opened once by the first who asks and never closed; or why there is none, and how to
// get it.
Result<const BackendLibrary *> openMlxLibrary();

// The same of any file, looked for in each of these folders, which end with a slash.
Result<const BackendLibrary *> openLibrary(const std::string &file, const std::vector<std::string> &folders);

// Tells builds apart: of the file that this code or constant was loaded from, how long it is and when it was written.
std::string identityOfCode(const void *code);

} // namespace mebp
