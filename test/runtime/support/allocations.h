// SPDX-License-Identifier: Apache-2.0
//
// Every call of malloc and its kin in a test's program, counted and refused; operator new ends in malloc, too. Under a
// sanitizer, which has its own, nothing is counted and nothing refused.
#pragma once

#include <atomic>

namespace mebp::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool followsAllocations = false;
#else
constexpr bool followsAllocations = true;
#endif

extern std::atomic<bool> countsAllocations;
extern std::atomic<int> allocations;
// So many calls succeed, then one fails, or all do. Negative: none fails.
extern std::atomic<int> allocationsLeft;
extern std::atomic<bool> allFailThen;

} // namespace mebp::test
