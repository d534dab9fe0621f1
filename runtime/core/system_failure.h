// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/core/status.h"

namespace mebp {

// "PATH: cannot WHAT: reason; advice", of an errno.
Status systemFailure(const std::string &path, const char *what, int number);

} // namespace mebp
