// SPDX-License-Identifier: Apache-2.0
#include "support/allocations.h"

#include <cerrno>

#include "support/system_malloc.h"

namespace mebp::test {

std::atomic<bool> countsAllocations{false}, allFailThen{false};
std::atomic<int> allocations{0}, allocationsLeft{-1};

} // namespace mebp::test

using namespace mebp::test;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static bool isRefused() {
  if (countsAllocations.load(std::memory_order_relaxed))
    ++allocations;
  int left = allocationsLeft.load(std::memory_order_relaxed);
  if (left < 0)
    return false;
  if (left > 0 || !allFailThen.load(std::memory_order_relaxed))
    allocationsLeft.store(left - 1, std::memory_order_relaxed);
  errno = left == 0 ? ENOMEM : errno;
  return left == 0;
}

extern "C" void *malloc(size_t size) { return isRefused() ? nullptr : systemMalloc(size); }
extern "C" void *calloc(size_t number, size_t size) { return isRefused() ? nullptr : systemCalloc(number, size); }
extern "C" void *realloc(void *block, size_t size) { return isRefused() ? nullptr : systemRealloc(block, size); }
extern "C" int posix_memalign(void **out, size_t alignment, size_t size) {
  void *block = isRefused() ? nullptr : systemMemalign(alignment, size);
  if (block)
    *out = block;
  return block ? 0 : ENOMEM;
}
#endif
