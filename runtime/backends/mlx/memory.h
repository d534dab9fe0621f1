// SPDX-License-Identifier: Apache-2.0
//
// The host's memory as MLX's arrays. A weight becomes one once. What programs write stays an array, and is what later
// programs read, until the host wants it. All else that is read is copied into arrays that are used again and again.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/backends/mlx/value.h"
#include "runtime/exec/backend.h"

namespace mebp::mlx {

// Rows that a program has appended to a state: of each of `batch` items as many, from `position` on.
struct Appended {
  array rows;
  int batch, capacity;
  int64_t position;
};

class Memory {
public:
  Buffer take(void *memory, uint64_t bytes, Access access);
  void giveBack(Buffer buffer);

  Value read(const Binding &binding, format::ElementType element, int rows, int columns);
  void write(Place place, const array &data);

  // A state stays an array while steps have the same batch; the host, which has to see it after `wait`, gets what was
  // appended. Whoever has taken it alone holds it, so that MLX may extend it where it lies, and keeps it again.
  Value takeState(Place place, format::ElementType element, int rows, int columns);
  void keepState(Place place, const array &data, const Appended &appended);

  // An I32 scalar that graphs take.
  array number(int value);

  // Computes all that was written, and leaves it in the buffers.
  void settle();
  // After a failure: what was written and not yet settled is of no use.
  void forget();

  // Arrays of the host's memory, and descriptions of graphs, so far. A step like one before adds none.
  uint64_t madeSoFar() const { return made; }
  void countDescription() { ++made; }

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
  // A copy of the host's memory; `begin` is null while nobody reads it.
  struct Copy {
    const unsigned char *begin;
    array data;
    bool is(const ::mlx::core::Shape &shape, ::mlx::core::Dtype type) const {
      return data.shape() == shape && data.dtype() == type;
    }
  };
  using Spot = std::pair<Buffer, uint64_t>;

  unsigned char *at(Place place) const { return place.isThere() ? pieces[place.buffer].begin + place.offset : nullptr; }
  bool overlapsWritten(const unsigned char *begin, uint64_t bytes) const;
  array copyOf(const unsigned char *begin, const ::mlx::core::Shape &shape, ::mlx::core::Dtype type);

  std::vector<Piece> pieces; // by their numbers
  std::map<Spot, Value> constants;
  std::map<Spot, array> states;
  std::vector<std::pair<unsigned char *, Appended>> appended; // and the states' begins
  std::vector<Written> written;                               // no two overlap
  std::vector<Copy> copies;
  std::unordered_map<const unsigned char *, ::mlx::core::Shape> lastShapes; // of what was copied from there
  std::unordered_map<int, array> numbers;
  uint64_t made = 0;
};

} // namespace mebp::mlx
