// SPDX-License-Identifier: Apache-2.0
//
// Loops, slices and live sizes, seen through one program run by the interpreter alone.
#include <gtest/gtest.h>

#include "runtime/backends/cpu/interpreter/interpreter.h"
#include "runtime/backends/cpu/machine.h"
#include "runtime/backends/cpu/registry.h"
#include "runtime/bundle/validate.h"
#include "support/program_builder.h"

using namespace mebp;
using namespace mebp::test;
using format::Loop;

namespace {

constexpr uint64_t columns = 3;

format::Model modelOf(uint32_t batch, uint32_t sequence) {
  format::Model model;
  model.set_vocabulary(10);
  model.set_hidden(columns);
  model.set_batch(batch);
  model.set_sequence(sequence);
  model.set_activation(format::F32);
  return model;
}

cpu::Memory at(std::vector<float> &numbers) {
  cpu::Memory memory;
  memory.data = reinterpret_cast<unsigned char *>(numbers.data());
  return memory;
}

struct Runner {
  explicit Runner(const format::Program &given) : program(given), arena(given.arena_bytes() + 64) {}

  void run(const format::Model &model, std::vector<cpu::Memory> bound, int64_t batch, int64_t sequence) {
    Status status = validateProgram(program, model);
    ASSERT_TRUE(status.ok()) << status.message();
    constexpr auto reference = cpu::InstructionSet::Reference;
    status = prepare(program, [](std::string_view name) { return cpu::findKernel(name, reference); }, prepared);
    ASSERT_TRUE(status.ok()) << status.message();
    Run run;
    auto *scratch = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(arena.data()) + 63) / 64 * 64);
    run.batch = batch;
    run.sequence = sequence;
    interpret(prepared, bound.data(), scratch, run, cpu::Machine(reference, 1).contextOf(sequence));
  }

  const format::Program &program;
  cpu::PreparedProgram prepared;
  std::vector<unsigned char> arena;
};

// y = the running sum of x over the trips, in the order of the loop: each trip adds its rows to a carried row-by-row
// accumulator and writes what it has so far. One column tells which trips came before.
format::Program runningSum(Loop::Domain domain, uint32_t size, uint64_t tokens) {
  ProgramBuilder b("sum", tokens);
  uint32_t x = b.flowInput(columns), y = b.flowOutput(columns);
  uint32_t total = b.matrix(columns, columns), start = b.aliasOf(y);
  b.kernel("fill", {}, {total});
  b.kernel("fill", {}, {start}, {{"value", -1}});
  std::vector<uint32_t> carried = b.beginLoop(domain, size, {total, start});
  uint32_t part = b.slice(x, 0, size), out = b.loopRows(0, size, columns), sum = b.inPlaceOf(carried[0]);
  // total += partᵀ part; out = part total: a trip sees itself and all before it.
  b.kernel("linear_weight_gradient", {part, part, carried[0]}, {sum});
  b.kernel("linear", {part, sum}, {out});
  b.endLoop({sum, b.update(carried[1], out, 0)}, {b.inPlaceOf(carried[0]), y});
  return b.program;
}

// The same by hand, for trips given as [first, last) of the token rows.
std::vector<float> expectedSum(const std::vector<float> &x, const std::vector<std::pair<int, int>> &trips) {
  std::vector<float> y(x.size(), -1);
  double total[columns][columns] = {};
  for (auto [first, last] : trips) {
    for (int r = first; r < last; ++r)
      for (uint64_t m = 0; m < columns; ++m)
        for (uint64_t k = 0; k < columns; ++k)
          total[m][k] += static_cast<double>(x[r * columns + m]) * x[r * columns + k];
    for (int r = first; r < last; ++r)
      for (uint64_t m = 0; m < columns; ++m) {
        double sum = 0;
        for (uint64_t k = 0; k < columns; ++k)
          sum += total[m][k] * x[r * columns + k];
        y[r * columns + m] = static_cast<float>(sum);
      }
  }
  return y;
}

struct LoopCase {
  Loop::Domain domain;
  uint32_t size;
  int64_t batch, sequence;
  std::vector<std::pair<int, int>> trips;
};

TEST(Interpreter, RunsLoopsInTheirOrder) {
  const LoopCase cases[] = {
      {Loop::SEQUENCE, 2, 2, 5, {{0, 2}, {2, 4}, {4, 5}, {5, 7}, {7, 9}, {9, 10}}},
      {Loop::SEQUENCE_REVERSED, 2, 2, 5, {{4, 5}, {2, 4}, {0, 2}, {9, 10}, {7, 9}, {5, 7}}},
      {Loop::TOKEN_ROWS, 4, 2, 5, {{0, 4}, {4, 8}, {8, 10}}},
      {Loop::TOKEN_ROWS, 4, 1, 3, {{0, 3}}},
      {Loop::SEQUENCE, 2, 2, 3, {{0, 2}, {2, 3}, {3, 5}, {5, 6}}},
      {Loop::SEQUENCE_REVERSED, 2, 1, 1, {{0, 1}}},
      {Loop::SEQUENCE, 5, 2, 5, {{0, 5}, {5, 10}}},
  };
  for (const LoopCase &current : cases) {
    std::vector<float> x(10 * columns), y(10 * columns, -1);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>((i * 7) % 5) - 1.5f;
    format::Program program = runningSum(current.domain, current.size, 10);
    Runner runner(program);
    runner.run(modelOf(2, 5), {at(x), at(y)}, current.batch, current.sequence);
    std::vector<float> expected = expectedSum(x, current.trips);
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_FLOAT_EQ(y[i], expected[i]) << "domain " << current.domain << ", element " << i;
  }
}

// As in a runtime that was built for other bundles (MEBP_BUNDLES).
TEST(Interpreter, RefusesAKernelThatWasLeftOut) {
  const format::Program program = runningSum(Loop::SEQUENCE, 2, 10);
  cpu::PreparedProgram prepared;
  auto find = [](std::string_view name) {
    return name == "linear_weight_gradient" ? nullptr : cpu::findKernel(name, cpu::InstructionSet::Reference);
  };
  EXPECT_EQ(prepare(program, find, prepared).message(),
            "program 'sum': this runtime was built without the kernel 'linear_weight_gradient', by -DMEBP_BUNDLES; "
            "build it again with this bundle in that list, or without the option");
}

// dx of tiles over a weight and its bias: y = x wᵀ + b, summed over the columns by a second product.
TEST(Interpreter, SlicesWeightRowsAndVectors) {
  constexpr uint64_t rows = 7;
  ProgramBuilder b("tiles", 4);
  uint32_t x = b.flowInput(columns), w = b.parameter("weight", rows, columns), bias = b.parameter("bias", 1, rows);
  uint32_t y = b.flowOutput(columns), start = b.aliasOf(y);
  b.kernel("fill", {}, {start});
  uint32_t argument = b.beginLoop(Loop::WEIGHT_ROWS, 3, {start}, w)[0];
  uint32_t tile = b.slice(w, 0, 3), biasTile = b.slice(bias, 0, 3);
  format::Value *view = b.program.mutable_values(static_cast<int>(biasTile));
  view->set_rows(1);
  view->set_columns(3);
  view->mutable_row_extent()->Clear();
  b.columnsOfLoop(biasTile, 0);
  uint32_t logits = b.tokens(3), sum = b.inPlaceOf(argument);
  b.columnsOfLoop(logits, 0);
  b.kernel("linear", {x, tile, biasTile}, {logits});
  b.kernel("linear_input_gradient", {logits, tile, argument}, {sum});
  b.endLoop({sum}, {y});

  std::vector<float> in(4 * columns), weight(rows * columns), vector(rows), out(4 * columns, 9);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i) * 0.25f - 1;
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] = static_cast<float>((i * 5) % 7) * 0.5f - 1;
  for (size_t i = 0; i < vector.size(); ++i)
    vector[i] = static_cast<float>(i);
  Runner runner(b.program);
  runner.run(modelOf(1, 4), {at(in), at(weight), at(vector), at(out)}, 1, 3);
  for (uint64_t r = 0; r < 4; ++r)
    for (uint64_t c = 0; c < columns; ++c) {
      double expected = r < 3 ? 0 : 9;
      for (uint64_t m = 0; r < 3 && m < rows; ++m) {
        double logit = vector[m];
        for (uint64_t k = 0; k < columns; ++k)
          logit += static_cast<double>(in[r * columns + k]) * weight[m * columns + k];
        expected += logit * weight[m * columns + c];
      }
      EXPECT_NEAR(out[r * columns + c], expected, 1e-4);
    }
}

TEST(Interpreter, RefusesUseOutsideTheLoop) {
  ProgramBuilder b("escape", 4);
  uint32_t x = b.flowInput(columns), y = b.flowOutput(columns);
  b.beginLoop(Loop::SEQUENCE, 4, {});
  uint32_t part = b.slice(x, 0, 4);
  b.endLoop({}, {});
  b.kernel("add", {part, part}, {y});
  Status status = validateProgram(b.program, modelOf(1, 4));
  EXPECT_EQ(status.code(), MEBP_CORRUPT);
  EXPECT_NE(status.message().find("not defined"), std::string::npos) << status.message();
}

TEST(Interpreter, RefusesWritesIntoInputs) {
  ProgramBuilder b("overwrite", 4);
  uint32_t x = b.flowInput(columns), y = b.flowOutput(columns);
  uint32_t alias = b.inPlaceOf(x);
  b.kernel("scale", {x}, {alias}, {{"alpha", 2}});
  b.kernel("scale", {alias}, {y}, {{"alpha", 2}});
  Status status = validateProgram(b.program, modelOf(1, 4));
  EXPECT_NE(status.message().find("neither an output nor in the arena"), std::string::npos) << status.message();
}

// A request during the third kernel call ends the program before the fourth.
TEST(Interpreter, EndsBeforeTheNextKernelWhereItIsCancelled) {
  static int calls;
  static Cancellation cancellation;
  calls = 0;
  ProgramBuilder b("fills", 4);
  uint32_t y = b.flowOutput(columns);
  for (int i = 0; i < 5; ++i)
    b.kernel("fill", {}, {i < 4 ? b.matrix(4, columns) : y});
  const format::Program program = b.program;
  cpu::PreparedProgram prepared;
  Status status = prepare(
      program,
      [](std::string_view) -> cpu::Kernel {
        return [](const cpu::Call &, const cpu::Context &) {
          if (++calls == 3)
            cancellation.request();
        };
      },
      prepared);
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<unsigned char> arena(program.arena_bytes() + 64);
  std::vector<float> out(4 * columns);
  cpu::Memory bound;
  bound.data = reinterpret_cast<unsigned char *>(out.data());
  mebp::Run run;
  run.batch = 1;
  run.sequence = 4;
  run.cancellation = &cancellation;
  const cpu::Machine machine(cpu::InstructionSet::Reference, 1);
  EXPECT_FALSE(interpret(prepared, &bound, arena.data(), run, machine.contextOf(4)));
  EXPECT_EQ(calls, 3);
  cancellation.settle();
  EXPECT_TRUE(interpret(prepared, &bound, arena.data(), run, machine.contextOf(4)));
  EXPECT_EQ(calls, 8);
}

} // namespace
