// SPDX-License-Identifier: Apache-2.0
//
// Walks a program's steps and builds MLX's graph of them. What a loop carries is evaluated after each trip, and what a
// program gives at its end: MLX then frees all between.
#include <algorithm>

#include <mlx/transforms.h>

#include "runtime/backends/mlx/program.h"
#include "runtime/exec/trips.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

namespace {

class Execution {
public:
  Execution(const format::Program &program, const Run &run, Memory &memory)
      : program(program), run(run), memory(memory), batch(static_cast<int>(run.batch)),
        sequence(static_cast<int>(run.sequence)), values(static_cast<size_t>(program.values_size())),
        trips(program.loops()) {
    bindInputs();
  }

  void runSteps(const std::vector<PreparedStep> &steps) {
    for (const PreparedStep &step : steps) {
      runStep(step);
      forget(step.dead);
    }
  }

  void writeOutputs() {
    std::vector<array> outputs;
    for (const format::Port &output : program.outputs())
      outputs.push_back(mx::contiguous(valueOf(output.value()).data));
    mx::async_eval(outputs);
    const Binding *binding = run.bindings + program.inputs_size();
    for (const array &output : outputs)
      memory.write((binding++)->data, output);
  }

private:
  void bindInputs() {
    const Binding *binding = run.bindings;
    for (const format::Port &input : program.inputs()) {
      Window live = windowOf(input.value());
      values[input.value()] = memory.read(*binding++, live.element, live.rows, live.columns);
    }
    // A node that nobody else holds may be overwritten by what is computed from it; these are not ours to write.
    inputs = values;
  }

  static int liveCount(uint64_t most, const format::Extent &extent, int tokens, const std::vector<Trip> &trips) {
    if (extent.kind() == format::Extent::TOKENS)
      return tokens;
    return extent.kind() == format::Extent::LOOP ? static_cast<int>(trips[extent.loop()].rows) : static_cast<int>(most);
  }

  Window windowOf(uint32_t index) const {
    const format::Value &value = program.values(static_cast<int>(index));
    Window window;
    window.element = value.element();
    window.rows = liveCount(value.rows(), value.row_extent(), batch * sequence, trips);
    window.columns = liveCount(value.columns(), value.column_extent(), batch * sequence, trips);
    if (value.row_extent().kind() == format::Extent::LOOP)
      window.firstRow = static_cast<int>(trips[value.row_extent().loop()].first);
    if (value.column_extent().kind() == format::Extent::LOOP)
      window.firstColumn = static_cast<int>(trips[value.column_extent().loop()].first);
    return window;
  }

  void define(uint32_t index, const array &data) {
    values[index] = Value{data, program.values(static_cast<int>(index)).element(), data.shape(1)};
  }

  void runStep(const PreparedStep &prepared) {
    const format::Step &step = *prepared.step;
    if (step.has_kernel())
      runKernel(step.kernel(), prepared);
    else if (step.has_loop())
      runLoop(prepared);
    else if (step.has_slice())
      runSlice(step.slice());
    else
      runUpdate(step.update());
  }

  void runKernel(const format::Kernel &kernel, const PreparedStep &prepared) {
    Call call{prepared.attributes, {}, {}, batch, sequence, {}};
    if (kernel.operands_size() > 0 && kernel.operands(0) >= 0)
      call.firstRow = windowOf(static_cast<uint32_t>(kernel.operands(0))).firstRow;
    for (int32_t operand : kernel.operands())
      call.operands.push_back(operand < 0 ? nullptr : &valueOf(static_cast<uint32_t>(operand)));
    for (int32_t result : kernel.results())
      call.results.push_back(result < 0 ? Window() : windowOf(static_cast<uint32_t>(result)));
    call.given.resize(call.results.size());
    prepared.kernel(call);
    for (int i = 0; i < kernel.results_size(); ++i)
      if (kernel.results(i) >= 0)
        define(static_cast<uint32_t>(kernel.results(i)), call.given[static_cast<size_t>(i)].value());
  }

  // Whether the trip's part of a value is rows of it, and not columns.
  bool coversRows(uint32_t part, uint32_t loop) const {
    const format::Extent &rows = program.values(static_cast<int>(part)).row_extent();
    return rows.kind() == format::Extent::LOOP && rows.loop() == loop;
  }

  void runSlice(const format::Slice &slice) {
    const Value &source = valueOf(slice.source());
    auto first = static_cast<int>(trips[slice.loop()].first), rows = static_cast<int>(trips[slice.loop()].rows);
    values[slice.result()] =
        coversRows(slice.result(), slice.loop()) ? sliceRows(source, first, rows) : sliceColumns(source, first, rows);
  }

  void runUpdate(const format::Update &update) {
    const array &destination = valueOf(update.destination()).data, &source = valueOf(update.source()).data;
    auto first = static_cast<int>(trips[update.loop()].first);
    mx::Shape begin = {first, 0};
    if (!coversRows(update.source(), update.loop()))
      std::swap(begin[0], begin[1]);
    mx::Shape end = {begin[0] + source.shape(0), begin[1] + source.shape(1)};
    define(update.result(), mx::slice_update(destination, source, begin, end));
  }

  void runLoop(const PreparedStep &prepared) {
    const format::Loop &loop = prepared.step->loop();
    for (const format::Carried &carried : loop.carried()) {
      // What no step defines begins with any content.
      if (!values[carried.initial()]) {
        Window whole = windowOf(carried.initial());
        define(carried.initial(), mx::zeros({whole.rows, whole.columns}, dtypeOf(whole.element)));
      }
      values[carried.argument()] = values[carried.initial()];
    }
    forget(prepared.taken);
    bool ofWeight = loop.domain() == format::Loop::WEIGHT_ROWS;
    const Trips all(loop, ofWeight ? windowOf(loop.domain_value()).rows : 0, batch, sequence);
    for (int64_t i = 0; i < all.count(); ++i) {
      trips[loop.loop()] = all[i];
      runSteps(prepared.body);
      std::vector<std::optional<Value>> left;
      std::vector<array> nodes;
      for (const format::Carried &carried : loop.carried()) {
        left.push_back(values[carried.yielded()]);
        nodes.push_back(left.back().value().data);
      }
      mx::eval(std::move(nodes));
      forget(prepared.left);
      bool last = i + 1 == all.count();
      for (size_t j = 0; j < left.size(); ++j) {
        const format::Carried &carried = loop.carried(static_cast<int>(j));
        values[last ? carried.result() : carried.argument()] = std::move(left[j]);
      }
    }
  }

  void forget(const std::vector<uint32_t> &indices) {
    for (uint32_t index : indices)
      values[index].reset();
  }
  const Value &valueOf(uint32_t index) const { return values[index].value(); }

  const format::Program &program;
  const Run &run;
  Memory &memory;
  int batch, sequence;
  std::vector<std::optional<Value>> values, inputs;
  std::vector<Trip> trips;
};

} // namespace

void execute(const PreparedProgram &prepared, const Run &run, Memory &memory) {
  Execution execution(*prepared.program, run, memory);
  execution.runSteps(prepared.steps);
  execution.writeOutputs();
}

} // namespace mebp::mlx
