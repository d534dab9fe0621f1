// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/fastest.h"

#include "format/alignment.h"
#include "format/half.h"
#include "runtime/backends/cpu/machine.h"
#include "runtime/backends/cpu/products/bf16_products.h"
#include "runtime/backends/cpu/registry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

namespace mebp::cpu {

namespace {

// A product as a layer has it, small enough for the first cache.
class Trial {
public:
  Trial() : memory(new Memory) {
    for (int64_t i = 0; i < rows * depth; ++i)
      memory->x[i] = format::floatToBfloat(static_cast<float>(i % 61 - 30) / 32);
    for (int64_t i = 0; i < columns * depth; ++i)
      memory->w[i] = format::floatToBfloat(static_cast<float>(i % 53 - 26) / 32);
  }

  // Seconds of one run; its results stay until the next.
  double run(InstructionSet set) {
    Tensor x = tensor(memory->x, rows, depth, Storage::BF16), w = tensor(memory->w, columns, depth, Storage::BF16);
    Tensor operands[] = {x, w}, results[] = {tensor(memory->y, rows, columns, Storage::F32)};
    Machine machine(set, 1, memory->workspace);
    Kernel linear = findKernel("linear", set);
    auto start = std::chrono::steady_clock::now();
    linear({operands, 2, results, 1, {}}, machine.contextOf(rows));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::vector<float> results() const { return {memory->y, memory->y + rows * columns}; }

private:
  static constexpr int64_t rows = 96, columns = 32, depth = 512;
  struct Memory {
    alignas(format::alignment) unsigned char workspace[workspaceBytes];
    uint16_t x[rows * depth], w[columns * depth];
    float y[rows * columns];
  };

  static Tensor tensor(void *data, int64_t rows, int64_t columns, Storage storage) {
    Tensor made;
    made.data = data, made.rows = rows, made.columns = columns, made.stride = columns, made.storage = storage;
    return made;
  }

  std::unique_ptr<Memory> memory;
};

bool agree(const std::vector<float> &left, const std::vector<float> &right) {
  float largest = 0, difference = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(left[i]));
    difference = std::max(difference, std::abs(left[i] - right[i]));
  }
  return difference <= 1e-5f * largest;
}

} // namespace

InstructionSet findFastest(const std::vector<InstructionSet> &sets) {
  auto plain = std::find_if(sets.begin(), sets.end(), [](InstructionSet set) { return !findBf16Products(set); });
  if (plain == sets.begin())
    return *plain;
  Trial trial;
  std::vector<double> seconds(static_cast<size_t>(plain - sets.begin()) + 1, 1.0);
  std::vector<std::vector<float>> results(seconds.size());
  for (int round = 0; round < 9; ++round)
    for (size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] = std::min(seconds[i], trial.run(sets[i]));
      results[i] = trial.results();
    }
  InstructionSet fastest = *plain;
  constexpr double clearly = 1.2;
  double least = seconds.back() / clearly;
  for (size_t i = 0; i + 1 < seconds.size(); ++i)
    if (seconds[i] < least && agree(results[i], results.back())) {
      fastest = sets[i];
      least = seconds[i];
    }
  return fastest;
}

} // namespace mebp::cpu
