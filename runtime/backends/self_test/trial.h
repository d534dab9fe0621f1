// SPDX-License-Identifier: Apache-2.0
//
// A call with random content, which one backend after another runs from the same bits.
#pragma once

#include <vector>

#include "runtime/backends/self_test/call.h"
#include "runtime/core/status.h"
#include "runtime/exec/backend.h"

namespace mebp::self_test {

using Results = std::vector<std::vector<float>>; // of each result that is read, its numbers

class Trial {
public:
  explicit Trial(const Call &call);
  // By a backend that has loaded nothing yet. MEBP_UNSUPPORTED where it does not have the kernel.
  Result<Results> run(Backend &backend) const;

private:
  // Memory that begins at a multiple of 64 bytes, as backends are promised.
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  class Memory {
  public:
    Memory() = default;
    explicit Memory(uint64_t bytes) : lines((bytes + sizeof(Line) - 1) / sizeof(Line)), used(bytes) {}
    unsigned char *data() { return lines.empty() ? nullptr : lines.data()->bytes; }
    uint64_t size() const { return used; }

  private:
    std::vector<Line> lines;
    uint64_t used = 0;
  };
  // A matrix as weights.bin has it.
  struct Content {
    Memory data, scales, minima;
  };

  Content makeContent(const Matrix &matrix, uint64_t stream) const;
  static std::vector<float> numbersOf(const Matrix &matrix, Content &content);

  const Call &call;
  format::Bundle bundle;
  std::vector<Content> operands, results;
};

// The norm of the difference by the norm of what was expected; huge where either is not finite, or one lacks numbers.
double relativeError(const std::vector<float> &actual, const std::vector<float> &expected);

} // namespace mebp::self_test
