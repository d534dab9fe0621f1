// SPDX-License-Identifier: Apache-2.0
//
// Memory for calls that are only timed: ordinary numbers to read, and room to write. Matrices are laid out first, for
// all calls, and then there is as much memory as the largest call needs.
#pragma once

#include <array>
#include <vector>

#include "runtime/backends/self_test/call.h"
#include "runtime/exec/backend.h"

namespace mebp {

enum class Pool : uint8_t { Floats, Halves, Indices, Sums, Results, WeightFloats, WeightHalves, Codes, Scales };
constexpr size_t poolCount = 9;

struct Tensor {
  self_test::Matrix matrix = {}; // no rows: absent
  Pool pool = Pool::Floats;
  uint64_t offset = 0;
};

uint64_t bytesOf(const Tensor &tensor); // without scales and minima

class Pools {
public:
  static constexpr int64_t vocabulary = 4096; // indices are below

  // The next tensors share no memory with each other, and all of it with those from before.
  void reset() { next = {}; }
  Tensor operand(format::ElementType element, int64_t rows, int64_t columns);
  Tensor indices(int64_t rows);
  Tensor sum(int64_t rows, int64_t columns); // an operand, and the result that is added to it
  Tensor result(format::ElementType element, int64_t rows, int64_t columns);
  // Where one of `turns` is: in a step, a layer's weights are read once and then come all the others.
  static Tensor weight(format::ElementType element, int64_t rows, int64_t columns);

  void allocate();
  uint64_t bytesOf(Pool pool) const { return most[static_cast<size_t>(pool)]; }

  // The memory in a device's hands, for one call: what it keeps of a pool's bytes holds for matrices of one shape.
  class Lent {
  public:
    Lent(Pools &pools, Backend &backend);
    Lent(const Lent &) = delete;
    ~Lent();
    // `turn`: each has another part of a weight's pool, which is larger than a cache.
    Binding bind(const Tensor &tensor, size_t turn) const;

  private:
    Place at(Pool pool, uint64_t offset) const { return {buffers[static_cast<size_t>(pool)], offset}; }
    Backend &backend;
    std::array<Buffer, poolCount> buffers;
  };

private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  Tensor take(Pool pool, format::ElementType element, int64_t rows, int64_t columns);

  std::array<uint64_t, poolCount> next = {}, most = {}; // bytes
  std::array<std::vector<Line>, poolCount> memory;
};

} // namespace mebp
