// SPDX-License-Identifier: Apache-2.0
//
// The system's memory beneath malloc and its kin, for programs that have these functions of their own. What it gives is
// freed by free.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#if defined(__APPLE__)
#include <malloc/malloc.h>
#else
#include <malloc.h>
#endif

#if defined(__GLIBC__)
extern "C" void *__libc_malloc(size_t);
extern "C" void *__libc_calloc(size_t, size_t);
extern "C" void *__libc_realloc(void *, size_t);
extern "C" void *__libc_memalign(size_t, size_t);
#endif

namespace mebp::test {

#if defined(__GLIBC__)
inline void *systemMalloc(size_t size) { return __libc_malloc(size); }
inline void *systemCalloc(size_t number, size_t size) { return __libc_calloc(number, size); }
inline void *systemRealloc(void *block, size_t size) { return __libc_realloc(block, size); }
inline void *systemMemalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
#elif defined(__APPLE__)
inline void *systemMalloc(size_t size) { return malloc_zone_malloc(malloc_default_zone(), size); }
inline void *systemCalloc(size_t number, size_t size) {
  return malloc_zone_calloc(malloc_default_zone(), number, size);
}
inline void *systemRealloc(void *block, size_t size) { return malloc_zone_realloc(malloc_default_zone(), block, size); }
inline void *systemMemalign(size_t alignment, size_t size) {
  return malloc_zone_memalign(malloc_default_zone(), alignment, size);
}
#else // musl, whose memalign is its malloc by another name
inline void *systemMemalign(size_t alignment, size_t size) { return ::memalign(alignment, size); }
inline void *systemMalloc(size_t size) { return systemMemalign(alignof(std::max_align_t), size); }
inline void *systemCalloc(size_t number, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(number, size, &bytes))
    return nullptr;
  void *block = systemMalloc(bytes);
  return block ? std::memset(block, 0, bytes) : nullptr;
}
inline void *systemRealloc(void *block, size_t size) {
  void *larger = systemMalloc(size);
  if (!larger || !block)
    return larger;
  const size_t held = ::malloc_usable_size(block);
  std::memcpy(larger, block, held < size ? held : size);
  std::free(block);
  return larger;
}
#endif

} // namespace mebp::test
