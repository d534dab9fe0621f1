// SPDX-License-Identifier: Apache-2.0
#include "support/allocations.h"

#include <cerrno>
#include <cstdlib>

namespace mebp::test {

std::atomic<bool> countsAllocations{false}, allFailThen{false};
std::atomic<int> allocations{0}, allocationsLeft{-1};

} // namespace mebp::test

using namespace mebp::test;

extern "C" void *__libc_malloc(size_t);
extern "C" void *__libc_calloc(size_t, size_t);
extern "C" void *__libc_realloc(void *, size_t);
extern "C" void *__libc_memalign(size_t, size_t);

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

extern "C" void *malloc(size_t size) { return isRefused() ? nullptr : __libc_malloc(size); }
extern "C" void *calloc(size_t number, size_t size) { return isRefused() ? nullptr : __libc_calloc(number, size); }
extern "C" void *realloc(void *block, size_t size) { return isRefused() ? nullptr : __libc_realloc(block, size); }
extern "C" int posix_memalign(void **out, size_t alignment, size_t size) {
  void *block = isRefused() ? nullptr : __libc_memalign(alignment, size);
  if (block)
    *out = block;
  return block ? 0 : ENOMEM;
}
#endif
