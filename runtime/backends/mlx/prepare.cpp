// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "format/kernels.h"
#include "format/storage.h"
#include "runtime/backends/mlx/program.h"
#include "runtime/exec/read_attributes.h"

namespace mebp::mlx {

namespace {

using Steps = format::Repeated<format::Step>;
using Flags = std::vector<bool>; // of each value

class Preparer {
public:
  explicit Preparer(const format::Program &program) : program(program), everMade(none()) {
    for (const format::Port &input : program.inputs())
      everMade[input.value()] = true;
    findMade(program.steps());
  }

  Status prepare(const Steps &steps, std::vector<PreparedStep> &out) {
    out.reserve(static_cast<size_t>(steps.size()));
    for (const format::Step &step : steps) {
      PreparedStep &prepared = out.emplace_back();
      prepared.step = &step;
      if (step.has_kernel())
        if (Status status = findKernel(step.kernel(), prepared); !status.ok())
          return status;
      if (step.has_loop())
        if (Status status = prepare(step.loop().steps(), prepared.body); !status.ok())
          return status;
    }
    return Status();
  }

  // Where each value of a list of steps is read for the last time; a loop reads what its steps read. `own` are the
  // values that the list begins with, `kept` those that live on after it.
  void findDead(std::vector<PreparedStep> &steps, Flags own, const Flags &kept) const {
    std::unordered_map<uint32_t, size_t> last;
    for (size_t i = 0; i < steps.size(); ++i) {
      forEachRead(*steps[i].step, [&](uint32_t value) { last[value] = i; });
      forEachResult(*steps[i].step, [&](uint32_t value) {
        own[value] = true;
        last.emplace(value, i);
      });
    }
    for (auto [value, step] : last)
      if (own[value] && !kept[value])
        steps[step].dead.push_back(value);
    for (PreparedStep &step : steps)
      if (step.step->has_loop())
        findDeadInLoop(step);
  }

  Flags none() const { return Flags(static_cast<size_t>(program.values_size())); }
  // The states that the program extends: theirs are the appended rows, too, which the host gets. Of a state that goes
  // on from step to step these are all that it has.
  std::vector<StateUse> states(const std::vector<PreparedStep> &steps) const {
    std::vector<StateUse> found;
    for (const PreparedStep &step : steps) {
      if (!step.step->has_kernel())
        continue;
      const format::Kernel &kernel = step.step->kernel();
      if (kernel.name() == "append")
        addState(kernel.operands(0), kernel.operands(1), kernel.results(0), step.attributes.capacity, false, found);
      if (step.attributes.items == 0)
        continue;
      const format::KernelSignature &signature = *format::findSignature(kernel.name());
      for (int i = 0; i < kernel.operands_size(); ++i)
        if (const format::Slot &slot = signature.operands[i];
            slot.carry != format::Carry::No && kernel.operands(i) >= 0) {
          const int32_t next = kernel.results(slot.accumulates);
          const auto rows = static_cast<int>(program.values(next).rows());
          addState(kernel.operands(i), next, next, rows / step.attributes.items, true, found);
        }
    }
    return found;
  }

  Flags outputs(const std::vector<StateUse> &states) const {
    Flags kept = none();
    for (const format::Port &output : program.outputs())
      kept[output.value()] = true;
    for (const StateUse &state : states)
      kept[state.rows] = kept[state.result] = true;
    return kept;
  }
  // What lives until it is read for the last time, though no step defines it: states are computed from where they lie.
  Flags given(const std::vector<StateUse> &states) const {
    Flags own = none();
    for (const StateUse &state : states)
      own[program.inputs(state.input).value()] = true;
    return own;
  }

private:
  void addState(int32_t state, int32_t rows, int32_t result, int capacity, bool isCarried,
                std::vector<StateUse> &found) const {
    for (int input = 0; input < program.inputs_size(); ++input)
      if (static_cast<int32_t>(program.inputs(input).value()) == state)
        found.push_back({input, static_cast<uint32_t>(rows), static_cast<uint32_t>(result), capacity, isCarried});
  }

  void findDeadInLoop(PreparedStep &step) const {
    const format::Loop &loop = step.step->loop();
    Flags arguments = none(), yielded = none(), read = none(), made = none();
    for (const format::Step &inner : loop.steps()) {
      forEachRead(inner, [&](uint32_t value) { read[value] = true; });
      forEachResult(inner, [&](uint32_t value) { made[value] = true; });
    }
    for (const format::Carried &carried : loop.carried()) {
      arguments[carried.argument()] = yielded[carried.yielded()] = true;
      uint32_t initial = carried.initial();
      if (!read[initial] && std::count(step.dead.begin(), step.dead.end(), initial))
        step.taken.push_back(initial);
      if (made[carried.yielded()])
        step.left.push_back(carried.yielded());
    }
    findDead(step.body, arguments, yielded);
  }

  // But for what loops begin with and no step defines.
  void findMade(const Steps &steps) {
    for (const format::Step &step : steps) {
      if (step.has_loop()) {
        for (const format::Carried &carried : step.loop().carried())
          everMade[carried.argument()] = everMade[carried.result()] = true;
        findMade(step.loop().steps());
      } else {
        forEachResult(step, [&](uint32_t value) { everMade[value] = true; });
      }
    }
  }

  Status findKernel(const format::Kernel &kernel, PreparedStep &out) const {
    out.kernel = mlx::findKernel(kernel.name());
    if (!out.kernel)
      return failure(MEBP_UNSUPPORTED, "program '%s': the MLX backend has no kernel '%s'; run it on the CPU",
                     program.name().c_str(), kernel.name().c_str());
    for (int32_t operand : kernel.operands())
      if (const format::Storage storage =
              operand < 0 ? format::Storage::F32 : format::storageOf(program.values(operand).element());
          isInBlocks(storage))
        return failure(MEBP_UNSUPPORTED,
                       "program '%s': the MLX backend has no kernels for weights in %s; run it on the CPU",
                       program.name().c_str(), format::nameOf(storage));
    return readAttributes(kernel, out.attributes);
  }

  template <typename Visit> void forEachResult(const format::Step &step, const Visit &visit) const {
    forEachMade(step, visit);
    if (!step.has_loop())
      return;
    for (const format::Carried &carried : step.loop().carried()) {
      visit(carried.result());
      if (!everMade[carried.initial()])
        visit(carried.initial());
    }
  }

  const format::Program &program;
  Flags everMade;
};

} // namespace

Status prepare(const format::Program &program, PreparedProgram &out) {
  Preparer preparer(program);
  out.program = &program;
  if (Status status = preparer.prepare(program.steps(), out.steps); !status.ok())
    return status;
  out.states = preparer.states(out.steps);
  preparer.findDead(out.steps, preparer.given(out.states), preparer.outputs(out.states));
  cutIntoStages(out);
  return Status();
}

} // namespace mebp::mlx
