// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mebp {

/// What new pages can take without swapping, within the limits of this process' control groups, too. Nothing where the
/// system does not tell. As mebp/memory.py finds it.
std::optional<uint64_t> findFreeBytes();

/// A budget as --memory-budget auto means it, with what is to be said of it.
struct FreeBudget {
  uint64_t bytes = 0;
  std::string option; // "--memory-budget 402MB": the same again
  std::string reason;
};

/// Three quarters of what is free, rounded down to an eighth and to whole megabytes, as mebp/building/budget.py has it.
FreeBudget chooseFreeBudget(uint64_t free);

} // namespace mebp
