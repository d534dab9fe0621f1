// SPDX-License-Identifier: Apache-2.0
//
// The host's memory as MLX's arrays. A weight becomes one once. What programs write stays an array, and is what later
// programs read, until the host wants it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/backends/mlx/value.h"
#include "runtime/exec/backend.h"

namespace mebp::mlx {

class Memory {
public:
  Buffer take(void *memory, uint64_t bytes, Access access);
  void giveBack(Buffer buffer);

  Value read(const Binding &binding, format::ElementType element, int rows, int columns);
  void write(Place place, const array &data);
  // Computes all that was written, and leaves it in the buffers.
  void settle();
  // After a failure: what was written and not yet settled is of no use.
  void forget() { written.clear(); }

private:
  struct Piece {
    unsigned char *begin = nullptr; // null: given back
    Access access = Access::Shared;
  };
  struct Written {
    unsigned char *begin;
    array data;
    bool overlaps(const unsigned char *other, uint64_t bytes) const {
      return begin < other + bytes && other < begin + data.nbytes();
    }
  };

  unsigned char *at(Place place) const { return place.isThere() ? pieces[place.buffer].begin + place.offset : nullptr; }
  bool overlapsWritten(const unsigned char *begin, uint64_t bytes) const;

  std::vector<Piece> pieces;                              // by their numbers
  std::map<std::pair<Buffer, uint64_t>, Value> constants; // by their places
  std::vector<Written> written;                           // no two overlap
};

} // namespace mebp::mlx
