// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/exec/backend.h"

namespace mebp {

// Where the build has no MLX, a refusal that says how to get it.
Result<std::unique_ptr<Backend>> makeMlxBackend();

} // namespace mebp
