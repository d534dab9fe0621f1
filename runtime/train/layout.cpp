// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/layout.h"

#include <algorithm>

#include "format/residency.h"
#include "runtime/bundle/programs.h"
#include "runtime/train/options.h"
#include "runtime/train/placer.h"

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
  Placer placer, file;
  const format::Model &model = bundle.model();
  uint64_t tokens = static_cast<uint64_t>(model.batch()) * model.sequence();
  bool forwardOnly = isForwardOnly(options);
  layout.checkpoints = planCheckpoints(bundle, options, placer, file);
  layout.trainables = planTrainables(bundle, options, placer, file);
  layout.fileBytes = file.total();
  if (!forwardOnly)
    layout.gradientPlan = planGradients(bundle, gradientUseOf(options));
  layout.gradients = placer.take(layout.gradientPlan.bytes);
  layout.ids = placer.take(tokens * sizeof(int32_t));
  layout.labels = placer.take(tokens * sizeof(int32_t));
  layout.loss = placer.take(sizeof(float));
  layout.scale = placer.take(sizeof(float));
  layout.scratch = placer.take(backend.followsPlacements() ? largestArena(bundle, forwardOnly) : 0);
  layout.workspace = placer.take(backend.workspaceBytes());
  if (options.resident_limit)
    layout.residency = placer.take(format::residencyBytes(bundle.weights_bytes()));
  layout.total = placer.total();
  return layout;
}

} // namespace mebp
