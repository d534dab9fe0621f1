// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "format/alignment.h"
#include "platform/platform.h"

namespace mebp {

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  std::swap(owner, other.owner);
  std::swap(isGuarded, other.isGuarded);
  return *this;
}

Arena::~Arena() {
  if (length && owner.release)
    owner.release(owner.user, bytes, length);
  else if (length)
    (isGuarded ? platform::unmapGuarded : platform::unmap)(bytes, length);
}

Result<Arena> Arena::allocate(uint64_t size, const mebp_allocator &allocator, bool guarded) {
  Arena arena;
  arena.owner = allocator;
  arena.isGuarded = guarded && !allocator.allocate;
  void *start = allocator.allocate ? allocator.allocate(allocator.user, size, format::alignment)
                : arena.isGuarded  ? platform::mapGuarded(size)
                                   : platform::mapMemory(size);
  if (!start)
    return failure(
        MEBP_OUT_OF_MEMORY, "the session needs %llu bytes, which the %s", static_cast<unsigned long long>(size),
        !allocator.allocate ? (std::string("system refuses: ") + std::strerror(errno)).c_str() : "allocator refuses");
  arena.bytes = static_cast<unsigned char *>(start);
  arena.length = size;
  if (reinterpret_cast<uintptr_t>(start) % format::alignment != 0)
    return failure(MEBP_INVALID_ARGUMENT, "the allocator's memory begins at %p, which is not a multiple of %llu", start,
                   static_cast<unsigned long long>(format::alignment));
  return arena;
}

void PeakMemory::sample() { highest = std::max(highest, platform::writtenMemoryBytes()); }

} // namespace mebp
