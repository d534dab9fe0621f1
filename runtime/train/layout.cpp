// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/layout.h"

#include <algorithm>

#include "format/residency.h"
#include "runtime/bundle/programs.h"
#include "runtime/train/options.h"

namespace mebp {

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

Layout planSession(const format::Bundle &bundle, const mebp_session_options &options, const Backend &backend) {
  Layout layout;
  Placer memory, file;
  uint64_t tokens = static_cast<uint64_t>(bundle.model().batch()) * bundle.model().sequence();
  layout.checkpoints = planCheckpoints(bundle, options, memory, file);
  layout.trainables = planTrainables(bundle, options, memory, file);
  layout.gradients = planGradients(bundle, options, memory);
  layout.ids = memory.take(tokens * sizeof(int32_t));
  layout.labels = memory.take(tokens * sizeof(int32_t));
  layout.loss = memory.take(sizeof(float));
  layout.scale = memory.take(sizeof(float));
  layout.scratch = memory.take(backend.followsPlacements() ? largestArena(bundle, isForwardOnly(options)) : 0);
  layout.workspace = memory.take(backend.workspaceBytes());
  if (options.resident_limit)
    layout.residency = memory.take(format::residencyBytes(bundle.weights_bytes()));
  layout.total = memory.total();
  layout.fileBytes = file.total();
  return layout;
}

} // namespace mebp
