// SPDX-License-Identifier: Apache-2.0
//
// Runs a program stage by stage. A stage's graph is made when sizes come for the first time; where a trip or a step
// begins is a number that it takes, so that trips and tokens share it. What a loop carries is evaluated after each
// trip, and what a program gives at its end: MLX then frees all between.
#include <algorithm>
#include <cstring>
#include <iterator>

#include <mlx/transforms.h>

#include "runtime/backends/mlx/program.h"
#include "runtime/exec/trips.h"

namespace mebp::mlx {

namespace mx = ::mlx::core;

namespace {

using Values = std::vector<std::optional<Value>>; // of a program, by their numbers

// What is as large as the run and the current trips say.
class Sizes {
public:
  Sizes(const format::Program &program, int tokens)
      : trips(program.loops()), places(program.loops()), program(program), tokens(tokens) {}

  Window windowOf(uint32_t index) const {
    const format::Value &value = valueAt(index);
    return {value.element(), liveCount(value.rows(), value.row_extent()),
            liveCount(value.columns(), value.column_extent())};
  }
  const format::Value &valueAt(uint32_t index) const { return program.values(static_cast<int>(index)); }

  // Whether the trip's part of a value is rows of it, and not columns.
  bool coversRows(uint32_t part, uint32_t loop) const {
    return isOfTrip(valueAt(part).row_extent(), loop) || isOwnPart(part, loop);
  }

  // Whether it is as large in each trip: what a trip keeps for itself, in the order of their places.
  bool isOwnPart(uint32_t part, uint32_t loop) const {
    return !isOfTrip(valueAt(part).row_extent(), loop) && !isOfTrip(valueAt(part).column_extent(), loop);
  }

  std::vector<Trip> trips;     // the current one of each loop
  std::vector<int64_t> places; // and where it stands among them

private:
  static bool isOfTrip(const format::Extent &extent, uint32_t loop) {
    return extent.kind() == format::Extent::LOOP && extent.loop() == loop;
  }
  int liveCount(uint64_t most, const format::Extent &extent) const {
    if (extent.kind() == format::Extent::TOKENS)
      return tokens;
    return static_cast<int>(extent.kind() == format::Extent::LOOP ? trips[extent.loop()].rows
                                                                  : static_cast<int64_t>(most));
  }

  const format::Program &program;
  int tokens;
};

// Where the current trip of a loop begins, and where it stands among the others.
struct TripStart {
  Start first, place;
};

// Describes a stage's graph: runs its steps on nodes.
class Description {
public:
  Description(const Stage &stage, const Sizes &sizes, const Live &live, const Routes &routes,
              std::vector<TripStart> starts, Values &values)
      : stage(stage), sizes(sizes), live(live), routes(routes), starts(std::move(starts)), values(values) {}

  void run() {
    for (const PreparedStep *step : stage.steps) {
      if (step->step->has_kernel())
        runKernel(*step);
      else if (step->step->has_slice())
        runSlice(step->step->slice());
      else
        runUpdate(step->step->update());
    }
  }

private:
  Start firstOf(const format::Extent &extent) const {
    for (size_t i = 0; i < stage.within.size(); ++i)
      if (extent.kind() == format::Extent::LOOP && extent.loop() == stage.within[i])
        return starts[i].first;
    return Start();
  }
  // Of the part of a value that is a trip's, and has so many rows.
  array firstOfPart(uint32_t part, int rows, uint32_t loop) const {
    const auto outer = std::find(stage.within.begin(), stage.within.end(), loop) - stage.within.begin();
    const TripStart &start = starts[static_cast<size_t>(outer)];
    return sizes.isOwnPart(part, loop) ? start.place.node() * array(rows) : start.first.node();
  }

  void runKernel(const PreparedStep &prepared) {
    const format::Kernel &kernel = prepared.step->kernel();
    Call call{prepared.attributes, live, routes};
    for (int32_t operand : kernel.operands())
      call.operands.push_back(operand < 0 ? nullptr : &valueOf(static_cast<uint32_t>(operand)));
    std::optional<Value> behind = behindLast(call.operands);
    if (behind)
      call.operands.front() = &*behind;
    for (int32_t result : kernel.results()) {
      call.results.push_back(result < 0 ? Window() : sizes.windowOf(static_cast<uint32_t>(result)));
      if (std::count(prepared.dead.begin(), prepared.dead.end(), static_cast<uint32_t>(result)))
        call.results.back().rows = 0;
    }
    // Tokens are rows of the first operand, or where that is a table, of the result.
    const format::Value *first = kernel.operands_size() > 0 && kernel.operands(0) >= 0
                                     ? &sizes.valueAt(static_cast<uint32_t>(kernel.operands(0)))
                                     : nullptr;
    const format::Value &result = sizes.valueAt(static_cast<uint32_t>(kernel.results(0)));
    const bool isTable = !first || first->row_extent().kind() != format::Extent::LOOP;
    call.firstRow = firstOf(isTable ? result.row_extent() : first->row_extent());
    call.firstColumn = firstOf(result.column_extent());
    call.given.resize(call.results.size());
    prepared.kernel(call);
    last.clear();
    for (int i = 0; i < kernel.results_size(); ++i)
      if (const std::optional<array> &given = call.given[static_cast<size_t>(i)]; kernel.results(i) >= 0 && given) {
        define(static_cast<uint32_t>(kernel.results(i)), *given);
        last.push_back(*given);
      }
  }

  // The first operand, not to be read before the results of the kernel before are there. MLX computes in an order of
  // its own, what is asked for at the end last: of a backward all that its gradients are made of would be kept until
  // then. What is not the first operand follows, since MLX computes nothing earlier than it has to.
  std::optional<Value> behindLast(const std::vector<const Value *> &operands) const {
    if (last.empty() || operands.empty() || !operands.front())
      return std::nullopt;
    Value first = *operands.front();
    first.data = behind(last, first.data);
    return first;
  }

  // Of what the stage itself has made; it is never quantised.
  void runSlice(const format::Slice &slice) {
    const bool rows = sizes.coversRows(slice.result(), slice.loop());
    const array &source = valueOf(slice.source()).data;
    const Window part = sizes.windowOf(slice.result());
    const mx::Shape size = rows ? mx::Shape{part.rows, source.shape(1)} : mx::Shape{source.shape(0), part.columns};
    const array first = firstOfPart(slice.result(), part.rows, slice.loop());
    define(slice.result(), mx::slice(source, first, {rows ? 0 : 1}, size));
  }

  void runUpdate(const format::Update &update) {
    const array &destination = valueOf(update.destination()).data, &source = valueOf(update.source()).data;
    const int axis = sizes.coversRows(update.source(), update.loop()) ? 0 : 1;
    define(update.result(),
           destination.shape() == source.shape()
               ? source
               : mx::slice_update(destination, source, firstOfPart(update.source(), source.shape(0), update.loop()),
                                  {axis}));
  }

  void define(uint32_t index, const array &data) {
    values[index] = Value{data, sizes.valueAt(index).element(), data.shape(1)};
  }
  const Value &valueOf(uint32_t index) const { return values[index].value(); }

  const Stage &stage;
  const Sizes &sizes;
  const Live &live;
  const Routes &routes;
  std::vector<TripStart> starts; // of each loop around the stage
  Values &values;
  std::vector<array> last; // what the kernel before has given
};

class Execution {
public:
  Execution(PreparedProgram &prepared, const Run &run, Memory &memory)
      : prepared(prepared), program(*prepared.program), run(run), memory(memory),
        sizes(program, static_cast<int>(run.batch * run.sequence)), values(static_cast<size_t>(program.values_size())) {
    live.batch = static_cast<int>(run.batch);
    live.sequence = static_cast<int>(run.sequence);
    live.logitScale = run.logitScale;
    moves = !prepared.states.empty() || run.position > 0;
    // Few graphs serve a text that grows.
    const auto kept = static_cast<int>(run.position + run.sequence);
    for (live.keptPositions = 64; live.keptPositions < kept;)
      live.keptPositions *= 2;
    bindInputs();
  }

  void runStages(std::vector<Stage> &stages) {
    for (Stage &stage : stages) {
      if (stage.loop)
        runLoop(stage);
      else
        runGraph(stage);
      forget(stage.dead);
    }
  }

  void writeOutputs() {
    std::vector<array> all;
    for (const format::Port &output : program.outputs())
      all.push_back(valueOf(output.value()).data);
    for (const StateUse &state : prepared.states) {
      all.push_back(valueOf(state.result).data);
      all.push_back(valueOf(state.rows).data);
    }
    mx::async_eval(all);
    const Binding *binding = run.bindings + program.inputs_size();
    for (const format::Port &output : program.outputs())
      memory.write((binding++)->data, valueOf(output.value()).data);
    for (const StateUse &state : prepared.states)
      memory.keepState(run.bindings[state.input].data, valueOf(state.result).data,
                       {valueOf(state.rows).data, live.batch, state.capacity, state.isCarried ? 0 : run.position});
  }

private:
  void bindInputs() {
    for (int i = 0; i < program.inputs_size(); ++i) {
      const uint32_t index = program.inputs(i).value();
      const Window window = sizes.windowOf(index);
      auto state = std::find_if(prepared.states.begin(), prepared.states.end(),
                                [&](const StateUse &use) { return use.input == i; });
      values[index] =
          state == prepared.states.end()
              ? memory.read(run.bindings[i], window.element, window.rows, window.columns)
              : memory.takeState(run.bindings[i].data, window.element, live.batch * state->capacity, window.columns);
    }
  }

  void runGraph(Stage &stage) {
    for (const PreparedStep *step : stage.slices) {
      const format::Slice &slice = step->step->slice();
      const Window part = sizes.windowOf(slice.result());
      const auto first = sizes.isOwnPart(slice.result(), slice.loop())
                             ? static_cast<int>(sizes.places[slice.loop()]) * part.rows
                             : static_cast<int>(sizes.trips[slice.loop()].first);
      const Value &source = valueOf(slice.source());
      values[slice.result()] = sizes.coversRows(slice.result(), slice.loop())
                                   ? sliceRows(source, first, part.rows)
                                   : sliceColumns(source, first, part.columns);
    }
    if (stage.steps.empty())
      return;
    std::vector<array> outputs = nodesOf(stage);
    for (size_t i = 0; i < outputs.size(); ++i)
      values[stage.results[i]] = Value{outputs[i], sizes.valueAt(stage.results[i]).element(), outputs[i].shape(1)};
  }

  bool drops(const Stage &stage) const { return stage.drops && run.dropout.isOn; }
  bool isMadeForPlaces(const Stage &stage) const { return stage.isMadeForPlaces && live.batch > 1; }

  std::vector<array> nodesOf(Stage &stage) {
    std::vector<array> inputs;
    for (uint32_t index : stage.reads) {
      const Value &value = valueOf(index);
      inputs.push_back(value.data);
      if (value.scales) {
        inputs.push_back(*value.scales);
        inputs.push_back(*value.minima);
      }
    }
    std::vector<int> key = {live.batch, live.sequence, live.keptPositions, moves};
    if (live.logitScale != 1) { // of few values, so a part of the graph
      int32_t bits;
      std::memcpy(&bits, &live.logitScale, sizeof(bits));
      key.push_back(bits);
    }
    for (uint32_t loop : stage.within) {
      key.push_back(static_cast<int>(sizes.trips[loop].rows));
      key.push_back(isMadeForPlaces(stage) ? static_cast<int>(sizes.trips[loop].first) : 0);
      if (!isMadeForPlaces(stage)) {
        inputs.push_back(memory.number(static_cast<int>(sizes.trips[loop].first)));
        inputs.push_back(memory.number(static_cast<int>(sizes.places[loop])));
      }
    }
    if (moves)
      inputs.push_back(memory.number(static_cast<int>(run.position)));
    if (drops(stage)) {
      key.push_back(1);
      inputs.push_back(array({run.dropout.key, run.dropout.firstSample}));
    }
    auto known = stage.graphs.find(key);
    if (known == stage.graphs.end()) {
      constexpr size_t most = 64; // texts of many lengths
      if (stage.graphs.size() == most)
        stage.graphs.clear();
      Graph graph([&](const std::vector<array> &nodes) { return describe(stage, nodes); }, inputs);
      memory.countDescription();
      known = stage.graphs.emplace(key, std::move(graph)).first;
    }
    return known->second.apply(inputs);
  }

  std::vector<array> describe(const Stage &stage, const std::vector<array> &nodes) const {
    Values described(values.size());
    auto next = nodes.begin();
    for (uint32_t index : stage.reads) {
      const Value &actual = valueOf(index);
      Value &value = described[index].emplace(Value{*next++, actual.element, actual.columns});
      if (actual.scales) {
        value.scales = *next++;
        value.minima = *next++;
      }
    }
    std::vector<TripStart> starts;
    for (uint32_t loop : stage.within) {
      TripStart start = {{static_cast<int>(sizes.trips[loop].first)}, {static_cast<int>(sizes.places[loop])}};
      if (!isMadeForPlaces(stage))
        for (Start *given : {&start.first, &start.place})
          *given = {0, *next++};
      starts.push_back(start);
    }
    Live of = live;
    if (moves)
      of.position = Start{0, *next++};
    if (drops(stage))
      of.dropout = *next++;
    Description(stage, sizes, of, prepared.routes, starts, described).run();
    std::vector<array> results;
    for (uint32_t index : stage.results) // row after row, as the host has them
      results.push_back(mx::contiguous(described[index].value().data));
    return results;
  }

  void runLoop(Stage &stage) {
    const format::Loop &loop = stage.loop->step->loop();
    for (const format::Carried &carried : loop.carried()) {
      // What no step defines begins with any content.
      if (!values[carried.initial()]) {
        const Window whole = sizes.windowOf(carried.initial());
        values[carried.initial()] =
            Value{mx::zeros({whole.rows, whole.columns}, dtypeOf(whole.element)), whole.element, whole.columns};
      }
      values[carried.argument()] = values[carried.initial()];
    }
    forget(stage.loop->taken);
    const bool ofWeight = loop.domain() == format::Loop::WEIGHT_ROWS;
    const Trips all(loop, ofWeight ? sizes.windowOf(loop.domain_value()).rows : 0, run.batch, run.sequence);
    for (int64_t i = 0; i < all.count(); ++i) {
      sizes.trips[loop.loop()] = all[i];
      sizes.places[loop.loop()] = all.placeOf(i);
      runStages(stage.body);
      Values left;
      std::vector<array> nodes;
      for (const format::Carried &carried : loop.carried()) {
        left.push_back(values[carried.yielded()]);
        nodes.push_back(left.back().value().data);
      }
      mx::eval(std::move(nodes));
      forget(stage.loop->left);
      const bool last = i + 1 == all.count();
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

  PreparedProgram &prepared;
  const format::Program &program;
  const Run &run;
  Memory &memory;
  Live live;
  bool moves = false; // the step is one of several that follow each other: where it begins is given
  Sizes sizes;
  Values values;
};

} // namespace

void execute(PreparedProgram &prepared, const Run &run, Memory &memory) {
  Execution execution(prepared, run, memory);
  execution.runStages(prepared.stages);
  execution.writeOutputs();
}

} // namespace mebp::mlx
