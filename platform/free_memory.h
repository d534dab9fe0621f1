// SPDX-License-Identifier: Apache-2.0
//
// What memory a run may plan for: for mebpc, and for Python, which asks for it here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mebp::platform {

// What new pages can take without swapping, within the limits of this process' control groups, too. Nothing where the
// system does not tell. `root`: where proc and sys are; for tests.
std::optional<uint64_t> findFreeBytes(const std::string &root = "/");

// Rounded down to a sixteenth of the next power of two, so that the next run finds what this one made, and to whole
// megabytes, so that it is short.
uint64_t steppedDown(uint64_t bytes);

} // namespace mebp::platform
