// SPDX-License-Identifier: Apache-2.0
//
// Cuts a program's steps into stages.
#include <algorithm>
#include <iterator>
#include <set>

#include "format/kernels.h"
#include "runtime/backends/mlx/program.h"

namespace mebp::mlx {

namespace {

class Cutter {
public:
  explicit Cutter(const format::Program &program) : program(program) {}

  std::vector<Stage> cut(const std::vector<PreparedStep> &steps) {
    std::vector<Stage> stages;
    for (size_t i = 0; i < steps.size();) {
      Stage &stage = stages.emplace_back();
      stage.within = within;
      if (steps[i].step->has_loop()) {
        addLoop(steps[i++], stage);
        continue;
      }
      size_t end = i;
      while (end < steps.size() && !steps[end].step->has_loop())
        ++end;
      addSteps(&steps[i], &steps[end - 1] + 1, stage);
      i = end;
    }
    return stages;
  }

private:
  void addLoop(const PreparedStep &step, Stage &stage) {
    stage.loop = &step;
    stage.dead = step.dead;
    within.push_back(step.step->loop().loop());
    domains.push_back(step.step->loop().domain());
    stage.body = cut(step.body);
    within.pop_back();
    domains.pop_back();
  }

  void addSteps(const PreparedStep *begin, const PreparedStep *end, Stage &stage) const {
    std::set<uint32_t> made, dead, reads;
    for (const PreparedStep *step = begin; step < end; ++step) {
      const bool isOutside = step->step->has_slice() && !made.count(step->step->slice().source());
      (isOutside ? stage.slices : stage.steps).push_back(step);
      dead.insert(step->dead.begin(), step->dead.end());
      if (isOutside)
        continue;
      forEachRead(*step->step, [&](uint32_t value) {
        if (!made.count(value))
          reads.insert(value);
      });
      forEachMade(*step->step, [&](uint32_t value) { made.insert(value); });
      if (!step->step->has_kernel())
        continue;
      stage.isMadeForPlaces |= seesKeysOfItems(step->step->kernel());
      stage.drops |= step->step->kernel().name() == "dropout";
    }
    stage.reads.assign(reads.begin(), reads.end());
    std::set_difference(made.begin(), made.end(), dead.begin(), dead.end(), std::back_inserter(stage.results));
    for (uint32_t value : dead)
      if (!made.count(value))
        stage.dead.push_back(value);
  }

  bool seesKeysOfItems(const format::Kernel &kernel) const {
    const format::KernelSignature *signature = format::findSignature(kernel.name());
    const auto seesAll = [](const format::Slot &slot) { return slot.name && slot.shape[0] == 'S'; };
    if (!signature || !std::any_of(std::begin(signature->operands), std::end(signature->operands), seesAll))
      return false;
    const format::Extent &rows = program.values(kernel.operands(0)).row_extent();
    for (size_t i = 0; i < within.size(); ++i)
      if (rows.kind() == format::Extent::LOOP && rows.loop() == within[i])
        return domains[i] == format::Loop::TOKEN_ROWS;
    return false;
  }

  const format::Program &program;
  std::vector<uint32_t> within;
  std::vector<format::Loop::Domain> domains;
};

} // namespace

void cutIntoStages(PreparedProgram &out) { out.stages = Cutter(*out.program).cut(out.steps); }

} // namespace mebp::mlx
