// SPDX-License-Identifier: Apache-2.0
// An update on several threads is the update on one, bit by bit.
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/optim/optimizer.h"
#include "support/own_options.h"

using namespace mebp;

namespace {

class Threads final : public Workers {
public:
  explicit Threads(uint64_t threads) : threads(threads) {}
  void run(uint64_t count, void (*task)(void *argument, uint64_t index), void *argument) override {
    tasks += count;
    std::atomic<uint64_t> next{0};
    std::vector<std::thread> running;
    for (uint64_t i = 0; i < threads; ++i)
      running.emplace_back([&] {
        for (uint64_t index; (index = next++) < count;)
          task(argument, count - 1 - index);
      });
    for (std::thread &thread : running)
      thread.join();
  }

  uint64_t tasks = 0;

private:
  uint64_t threads;
};

float numberAt(uint64_t i, float phase) { return std::sin(0.37f * static_cast<float>(i) + phase); }

// Parameters and what is kept, after three updates.
std::vector<unsigned char> updated(const format::OptimizerTraits &traits, const format::TrainedShape &shape,
                                   bool isNarrow, Workers *workers) {
  const format::StateOptions state = {true};
  const uint64_t bytes = format::alignUp(shape.elements() * sizeof(float));
  std::vector<unsigned char> memory(bytes + format::keptBytes(traits, shape, state));
  std::vector<unsigned char> scratch(format::scratchBytes(traits, shape));
  TrainedTensor tensor;
  tensor.shape = shape, tensor.isNarrow = isNarrow, tensor.workers = workers;
  tensor.parameters = memory.data(), tensor.scratch = scratch.data();
  format::placeKept(traits, shape, state, memory.data() + bytes,
                    memory.data() + bytes + format::keptBytes(traits, shape, state, true), tensor.kept);
  for (uint64_t i = 0; i < shape.elements(); ++i) {
    const float value = numberAt(i, 0);
    const uint16_t rounded = format::floatToBfloat(value);
    std::memcpy(tensor.parameters + i * (isNarrow ? sizeof(rounded) : sizeof(value)),
                isNarrow ? static_cast<const void *>(&rounded) : &value, isNarrow ? sizeof(rounded) : sizeof(value));
  }
  if (const uint32_t projector = format::findKept(traits, format::projectorArray); projector < format::maximumKept)
    for (uint64_t i = 0; i < traits.kept[projector].shape(shape, state).elements(); ++i)
      tensor.array<float>(projector)[i] = numberAt(i, 1);
  OptimizerOptions options = test::ownOptions(traits, 0.05);
  options.momentum = 0.9, options.weightDecay = 0.1;
  std::vector<float> gradient(shape.gradientElements());
  for (uint64_t step = 1; step <= 3; ++step) {
    for (uint64_t i = 0; i < gradient.size(); ++i)
      gradient[i] = numberAt(i, static_cast<float>(step));
    tensor.gradient = gradient.data();
    findOptimizer(traits.number)->update(options, step, tensor);
  }
  return memory;
}

TEST(OptimizerWorkers, ManyThreadsUpdateAsOneDoes) {
  for (const format::OptimizerTraits &traits : format::optimizers)
    for (bool isNarrow : {false, true})
      for (const auto &[rows, columns] : {std::pair<uint64_t, uint64_t>{301, 371}, {523, 130}}) {
        SCOPED_TRACE(std::string(traits.name) + (isNarrow ? ", bf16" : ", f32"));
        const format::TrainedShape shape = {rows, columns, traits.projects ? uint64_t(7) : 0};
        Threads three(3);
        EXPECT_EQ(updated(traits, shape, isNarrow, &three), updated(traits, shape, isNarrow, nullptr));
        EXPECT_GT(three.tasks, 1u);
      }
}

TEST(OptimizerWorkers, ManyThreadsAddTheSameNorm) {
  for (uint64_t count : {0, 1, 13, 32768, 5'000'003}) {
    std::vector<float> gradient(count);
    double exact = 0;
    for (uint64_t i = 0; i < count; ++i) {
      gradient[i] = numberAt(i, 0.5f);
      exact += static_cast<double>(gradient[i]) * gradient[i];
    }
    Threads three(3);
    const double sum = squareOf(nullptr, gradient.data(), count);
    EXPECT_EQ(squareOf(&three, gradient.data(), count), sum);
    EXPECT_NEAR(sum, exact, 1e-10 * exact);
  }
}

} // namespace
