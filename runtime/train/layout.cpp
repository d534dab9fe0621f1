// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/layout.h"

#include <algorithm>

#include "format/container.h"
#include "format/residency.h"
#include "format/storage.h"
#include "runtime/bundle/programs.h"
#include "runtime/train/options.h"
#include "runtime/train/placer.h"

namespace mebp {

uint64_t flowingRowBytes(const format::Model &model) {
  return format::rowBytesOf(format::storageOf(model.activation()), model.hidden());
}

static bool flowsInPlace(const format::Bundle &bundle) {
  for (const format::Block &block : bundle.blocks())
    for (ProgramUse use : {ProgramUse::Forward, ProgramUse::Backward, ProgramUse::Objective}) {
      int32_t number = programOf(block, use);
      if (number != noProgram && block.kind() != format::Block::EMBED && !bundle.programs(number).in_place())
        return false;
    }
  return true;
}

static uint64_t largestArena(const format::Bundle &bundle, bool forwardOnly) {
  uint64_t largest = 0;
  for (const format::Block &block : bundle.blocks())
    for (ProgramUse use : allProgramUses) {
      int32_t number = programOf(block, use);
      if (number != noProgram && !(forwardOnly && givesGradients(use)))
        largest = std::max<uint64_t>(largest, bundle.programs(number).arena_bytes());
    }
  return largest;
}

static void placeCheckpoints(Layout &layout, const format::Bundle &bundle, uint64_t bytes, Placer &placer,
                             Placer &file) {
  auto count = static_cast<uint32_t>(bundle.blocks_size() - 2);
  if (layout.forwardOnly) {
    layout.checkpoints.assign(count, noOffset);
    return;
  }
  if (layout.spilled) {
    // Each in pages of its own, which come and go with it.
    uint64_t stride = (bytes + format::regionAlignment - 1) / format::regionAlignment * format::regionAlignment;
    for (uint32_t i = 0; i < count; ++i)
      layout.checkpoints.push_back(file.take(stride));
    layout.filedCheckpointBytes = file.total();
    return;
  }
  layout.spacing = std::clamp(bundle.plan().spacing(), 1u, std::max(count, 1u));
  layout.missing = (layout.spacing - count % layout.spacing) % layout.spacing;
  std::vector<uint64_t> shared(layout.spacing, noOffset);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t own = noOffset;
    uint64_t &place = layout.isKept(i) ? own : shared[(i + layout.missing) % layout.spacing];
    if (place == noOffset)
      place = placer.take(bytes);
    layout.checkpoints.push_back(place);
  }
}

Layout planSession(const format::Bundle &bundle, const mebp_session_options &options, const Backend &backend) {
  Layout layout;
  Placer placer, file;
  const format::Model &model = bundle.model();
  uint64_t tokens = static_cast<uint64_t>(model.batch()) * model.sequence();
  uint64_t checkpointBytes = tokens * flowingRowBytes(model);
  layout.forwardOnly = isForwardOnly(options);
  layout.spilled = options.spill_folder && !layout.forwardOnly;
  placeCheckpoints(layout, bundle, checkpointBytes, placer, file);
  layout.flow[0] = placer.take(checkpointBytes);
  layout.flow[1] = flowsInPlace(bundle) ? layout.flow[0] : placer.take(checkpointBytes);

  layout.trainables = planTrainables(bundle, options, placer, file);
  layout.fileBytes = file.total();
  if (!layout.forwardOnly)
    layout.gradientPlan = planGradients(bundle, gradientUseOf(options));
  layout.gradients = placer.take(layout.gradientPlan.bytes);
  layout.ids = placer.take(tokens * sizeof(int32_t));
  layout.labels = placer.take(tokens * sizeof(int32_t));
  layout.loss = placer.take(sizeof(float));
  layout.scale = placer.take(sizeof(float));
  layout.scratch = placer.take(backend.followsPlacements() ? largestArena(bundle, layout.forwardOnly) : 0);
  layout.workspace = placer.take(backend.workspaceBytes());
  if (options.resident_limit)
    layout.residency = placer.take(format::residencyBytes(bundle.weights_bytes()));
  layout.total = placer.total();
  return layout;
}

} // namespace mebp
