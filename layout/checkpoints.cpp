// SPDX-License-Identifier: Apache-2.0
#include "layout/checkpoints.h"

#include <algorithm>

#include "format/lookup.h"

namespace mebp::layout {

// Of the programs that generate, or of the others that a session runs.
static bool flowsInPlace(const format::Bundle &bundle, bool generates) {
  auto anyFlow = [](const format::Ports &ports) {
    return std::any_of(ports.begin(), ports.end(),
                       [](const format::Port &port) { return port.kind() == format::Port::FLOW; });
  };
  const std::vector<const format::Program *> programs = programsRun(bundle, generates, false);
  return std::all_of(programs.begin(), programs.end(), [&](const format::Program *program) {
    return program->in_place() || !anyFlow(program->inputs()) || !anyFlow(program->outputs());
  });
}

static void placeInFile(CheckpointPlan &plan, uint32_t count, uint64_t bytes, Placer &file) {
  for (uint32_t i = 0; i < count; ++i)
    plan.places.push_back(file.takePages(bytes));
  plan.fileBytes = file.total();
}

// Of half a model: each layer that runs here keeps its input.
static void placeWhereRun(CheckpointPlan &plan, const format::Bundle &bundle, uint64_t bytes, Placer &memory) {
  for (int block = 1; block + 1 < bundle.blocks_size(); ++block)
    plan.places.push_back(
        programOf(bundle.blocks(block), format::forwardProgram) == format::noProgram ? noOffset : memory.take(bytes));
}

static void placeInSegments(CheckpointPlan &plan, uint32_t count, uint32_t spacing, uint64_t bytes, Placer &memory) {
  plan.spacing = std::clamp(spacing, 1u, std::max(count, 1u));
  plan.missing = (plan.spacing - count % plan.spacing) % plan.spacing;
  std::vector<uint64_t> shared(plan.spacing, noOffset);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t own = noOffset;
    uint64_t &place = plan.isKept(i) ? own : shared[(i + plan.missing) % plan.spacing];
    if (place == noOffset)
      place = memory.take(bytes);
    plan.places.push_back(place);
  }
}

static bool receivesGathered(const format::Bundle &bundle) {
  return bundle.has_split() && bundle.split().place() == format::Split::DEVICE && selectsRows(bundle);
}

static uint64_t widestOf(const std::vector<Border> &borders) {
  uint64_t bytes = 0;
  for (const Border &border : borders)
    bytes = std::max(bytes, border.bytes);
  return bytes;
}

CheckpointPlan planCheckpoints(const format::Bundle &bundle, const Choice &choice, Placer &memory, Placer &file) {
  CheckpointPlan plan;
  plan.borders = bordersOf(bundle, format::forwardProgram);
  const uint64_t bytes = widestOf(plan.borders);
  auto count = static_cast<uint32_t>(bundle.blocks_size() - 2);
  plan.forwardOnly = choice.forwardOnly;
  plan.spilled = choice.spillsCheckpoints && !plan.forwardOnly;
  plan.gathered = receivesGathered(bundle);
  if (plan.forwardOnly)
    plan.places.assign(count, noOffset);
  else if (bundle.has_split())
    placeWhereRun(plan, bundle, bytes, memory);
  else if (plan.spilled)
    placeInFile(plan, count, bytes, file);
  else
    placeInSegments(plan, count, choice.spacing, bytes, memory);
  plan.flow[0] = memory.take(bytes);
  plan.flow[1] = flowsInPlace(bundle, false) ? plan.flow[0] : memory.take(bytes);
  return plan;
}

CheckpointPlan planFlows(const format::Bundle &bundle, Placer &memory) {
  CheckpointPlan plan;
  plan.borders = bordersOf(bundle, format::decodeProgram);
  plan.forwardOnly = true;
  plan.gathered = receivesGathered(bundle);
  plan.places.assign(static_cast<size_t>(bundle.blocks_size() - 2), noOffset);
  const uint64_t bytes = widestOf(plan.borders);
  plan.flow[0] = memory.take(bytes);
  plan.flow[1] = flowsInPlace(bundle, true) ? plan.flow[0] : memory.take(bytes);
  return plan;
}

} // namespace mebp::layout
