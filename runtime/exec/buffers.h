// SPDX-License-Identifier: Apache-2.0
//
// The memory that a session has handed to its backend, and where in it a pointer of the host's points.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/exec/backend.h"

namespace mebp {

class Buffers {
public:
  Buffers() = default;
  Buffers(const Buffers &) = delete;
  ~Buffers() { giveBack(); }

  // `others`, which may be null, are looked through, too.
  void create(Backend &running, const Buffers *others = nullptr) {
    backend = &running;
    also = others;
  }

  void add(const void *memory, uint64_t bytes, Access access) {
    if (bytes > 0)
      pieces.push_back({static_cast<const unsigned char *>(memory), bytes,
                        backend->take(const_cast<void *>(memory), bytes, access)});
  }
  // Nowhere, for a null pointer and whatever is in none of them.
  Place find(const void *pointer) const {
    const auto *byte = static_cast<const unsigned char *>(pointer);
    for (const Piece &piece : pieces)
      if (byte >= piece.begin && byte < piece.begin + piece.bytes)
        return {piece.buffer, static_cast<uint64_t>(byte - piece.begin)};
    return also ? also->find(pointer) : Place();
  }
  // Null where none of these lies there.
  void *hostOf(Place place) const {
    for (const Piece &piece : pieces)
      if (piece.buffer == place.buffer)
        return const_cast<unsigned char *>(piece.begin) + place.offset;
    return also ? also->hostOf(place) : nullptr;
  }
  void giveBack() {
    for (const Piece &piece : pieces)
      backend->giveBack(piece.buffer);
    pieces.clear();
  }

private:
  struct Piece {
    const unsigned char *begin;
    uint64_t bytes;
    Buffer buffer;
  };

  Backend *backend = nullptr;
  const Buffers *also = nullptr;
  std::vector<Piece> pieces;
};

} // namespace mebp
