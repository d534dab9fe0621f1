// SPDX-License-Identifier: Apache-2.0
//
// Libraries beside this one, which are opened when somebody asks for them.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/status.h"

namespace mebp {

// Where the code that runs here lies: of Python's extension its package, of a program its bin/ beside lib/. Each ends
// with a slash.
std::vector<std::string> ownFolders();

// Opens the file where the first of these folders has it, and never closes it; or why not, and how to get it. `name` is
// what messages call it.
Result<void *> openSharedLibrary(const char *name, const std::string &file, const std::vector<std::string> &folders,
                                 const char *howToGet);

} // namespace mebp
