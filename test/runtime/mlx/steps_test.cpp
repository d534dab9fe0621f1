// SPDX-License-Identifier: Apache-2.0
//
// What steps of one size make: all of it at first, then nothing.
#include <deque>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/backends/mlx/backend.h"
#include "support/generating_model.h"

namespace mebp::mlx {

using namespace mebp::test;

namespace {

// Runs programs on memory that is its own.
class Programs {
public:
  explicit Programs(format::Bundle content)
      : bundle(std::move(content)), backend(makeBackend(::mlx::core::Device::cpu)) {
    Status status = backend->load(bundle, nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    for (const format::Program &program : bundle.programs()) {
      std::vector<Binding> &bound = bindings.emplace_back();
      for (const auto *ports : {&program.inputs(), &program.outputs()})
        for (const format::Port &port : *ports) {
          const format::Value &value = program.values(static_cast<int>(port.value()));
          std::vector<float> &place = memory.emplace_back(value.rows() * value.columns());
          bound.push_back({{backend->take(place.data(), place.size() * 4, Access::Shared), 0}, {}, {}});
        }
    }
  }

  // And what had been made after it.
  uint64_t run(int program, int64_t batch, int64_t sequence, int64_t position = 0) {
    mebp::Run run;
    run.bindings = bindings[static_cast<size_t>(program)].data();
    run.batch = batch;
    run.sequence = sequence;
    run.position = position;
    for (Status status : {backend->enqueue(static_cast<uint32_t>(program), run), backend->wait()})
      EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_GT(backend->deviceMemory().peak, 0u);
    return backend->deviceMemory().made;
  }

  format::Bundle bundle;

private:
  std::unique_ptr<Backend> backend;
  std::deque<std::vector<float>> memory;
  std::vector<std::vector<Binding>> bindings; // of each program
};

} // namespace

TEST(MlxSteps, MakeNothingTheSecondTime) {
  for (uint32_t chunk : {0, 2}) {
    TinyOptions tiny;
    tiny.chunk = chunk;
    Programs programs(tinyBundle(tiny));
    for (int program = 0; program < programs.bundle.programs_size(); ++program) {
      const uint64_t before = programs.run(program, 1, 3), first = programs.run(program, 2, 5);
      EXPECT_GT(first, before) << programs.bundle.programs(program).name();
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(programs.run(program, 2, 5), first) << programs.bundle.programs(program).name();
    }
  }
}

// A session belongs to no thread, and MLX's streams do.
TEST(MlxSteps, RunInOneThreadAfterAnother) {
  Programs programs(tinyBundle({}));
  for (int program = 0; program < programs.bundle.programs_size(); ++program) {
    programs.run(program, 2, 5);
    std::thread([&] { programs.run(program, 2, 5); }).join();
    programs.run(program, 2, 5);
  }
}

// Tokens share a graph: one more makes the number of its position, in each of which it is another one.
TEST(MlxSteps, TokensShareAGraph) {
  Programs programs(generatingBundle());
  const int layer = programs.bundle.programs_size() - 2;
  programs.run(layer, 2, 3);
  const uint64_t first = programs.run(layer, 2, 1, 3);
  for (int64_t position = 4; position < 60; ++position)
    EXPECT_EQ(programs.run(layer, 2, 1, position), first + static_cast<uint64_t>(position - 3));
  EXPECT_EQ(programs.run(layer, 2, 1, 10), first + 56);
}

} // namespace mebp::mlx
