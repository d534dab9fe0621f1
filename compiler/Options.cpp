// SPDX-License-Identifier: Apache-2.0
#include "compiler/Options.h"

#include <algorithm>

namespace mebp {

const char *nameOf(Spill spill) {
  constexpr const char *names[] = {"none", "checkpoints", "all"};
  return names[static_cast<int>(spill)];
}

std::string describeSchedule(const Schedule &schedule) {
  std::string text = schedule.chunk ? "chunks of " + std::to_string(schedule.chunk) + " tokens" : "whole sequences";
  if (schedule.spill != Spill::None)
    text += schedule.spill == Spill::All ? ", checkpoints and optimizer state in a file" : ", checkpoints in a file";
  else if (schedule.spacing > 1)
    text += ", one checkpoint in " + std::to_string(schedule.spacing) + " layers";
  return text + ", loss in tiles of " + std::to_string(schedule.lossRows) + " x " +
         std::to_string(schedule.lossColumns);
}

bool isForwardOnly(std::string_view optimizer) {
  const format::OptimizerTraits *traits = format::findOptimizer(optimizer);
  return traits && traits->forwardOnly;
}

uint32_t countStateArrays(std::string_view optimizer) {
  const format::OptimizerTraits *traits = format::findOptimizer(optimizer);
  return traits ? traits->stateArrays : 0;
}

int64_t countDecodeRows(const Options &options) {
  constexpr int64_t usual = 128;
  const StepShape &shape = options.shape;
  int64_t chunk = options.schedule.chunk ? options.schedule.chunk : usual;
  return std::max(std::min({chunk, shape.sequence, options.generation.positions}), 2 * shape.batch);
}

} // namespace mebp
