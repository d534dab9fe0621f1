// SPDX-License-Identifier: Apache-2.0
//
// Memory for calls that are only timed: ordinary numbers to read, and room to write.
#pragma once

#include <vector>

#include "runtime/backends/cpu/kernel/kernel.h"

namespace mebp {

class Pools {
public:
  Pools();

  // The next tensors share no memory with each other, and all of it with those from before.
  void reset();
  cpu::Tensor operand(cpu::Storage storage, int64_t rows, int64_t columns);
  cpu::Tensor result(cpu::Storage storage, int64_t rows, int64_t columns);
  cpu::Tensor integers(int64_t rows, int64_t below); // [rows, 1], from 0 on
  // Each turn another part of a pool that is larger than a cache: in a step, a layer's weights are read once and then
  // come all the others.
  cpu::Tensor weight(cpu::Storage storage, int64_t rows, int64_t columns, size_t turn);

private:
  struct Pool {
    std::vector<unsigned char> bytes;
    size_t next = 0;
  };
  cpu::Tensor take(Pool &pool, cpu::Storage storage, int64_t rows, int64_t columns);

  Pool floats, halves, results, indices; // operands in f32 and bf16
  std::vector<unsigned char> weightFloats, weightHalves, codes;
  std::vector<uint16_t> scales;
};

} // namespace mebp
