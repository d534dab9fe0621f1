// SPDX-License-Identifier: Apache-2.0
#include "compiler/Options.h"

#include "format/optimizers.h"

#include <algorithm>

namespace mebp {

const char *nameOf(Spill spill) {
  constexpr const char *names[] = {"none", "checkpoints", "all"};
  return names[static_cast<int>(spill)];
}

const char *getDefaultOptimizer() { return format::optimizers[0].name; }

bool isForwardOnly(std::string_view optimizer) {
  const format::OptimizerTraits *traits = format::findOptimizer(optimizer);
  return traits && traits->forwardOnly;
}

bool changesInt8(std::string_view optimizer) {
  const format::OptimizerTraits *traits = format::findOptimizer(optimizer);
  return traits && traits->changesInt8;
}

bool projectsGradients(std::string_view optimizer) {
  const format::OptimizerTraits *traits = format::findOptimizer(optimizer);
  return traits && traits->projects;
}

std::string nameField(std::string_view option) {
  std::string name(option);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string findWrongRank(const char *option, int64_t rank) {
  return rank > 0 ? "" : option + (" " + std::to_string(rank)) + ": give a rank of at least 1";
}

std::string findWrongMomentum(const Training &training) {
  if (!(training.momentum >= 0 && training.momentum < format::momentumBelow))
    return "give a number of at least 0 and below 1";
  const format::OptimizerTraits *traits = format::findOptimizer(std::string_view(training.optimizer));
  if (training.momentum == 0 || (traits && format::takesMomentum(*traits)))
    return "";
  return "is not for --optimizer " + training.optimizer + "; leave it out, or give --optimizer sgd";
}

bool keepsState(const Training &training) {
  const format::OptimizerTraits *traits = format::findOptimizer(std::string_view(training.optimizer));
  return traits && format::keepsState(*traits, {training.momentum != 0});
}

std::string describeOptimizer(const Training &training) {
  return training.optimizer + (training.momentum != 0 ? " with momentum" : "");
}

int64_t countDecodeRows(const Options &options) {
  constexpr int64_t usual = 128;
  const StepShape &shape = options.shape;
  int64_t chunk = options.schedule.chunk ? options.schedule.chunk : usual;
  return std::max(std::min({chunk, shape.sequence, options.generation.positions}), 2 * shape.batch);
}

} // namespace mebp
