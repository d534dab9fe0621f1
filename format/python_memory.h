// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mebp::format {

// What a process of mebp train has in memory beside its session: Python, its libraries, a tokenizer and little data.
// Measured (docs/memory.md); a run says what it is with its own data.
constexpr uint64_t pythonBytes = 46'000'000;

} // namespace mebp::format
