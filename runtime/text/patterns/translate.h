// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/core/status.h"

namespace mebp::text {

// An expression of Oniguruma's in PCRE2's words: classes within classes made flat, \s, \w and \h spelled out, scripts
// without their extensions. Refuses what is not known to mean the same.
Result<std::string> translate(const std::string &expression);

} // namespace mebp::text
