// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/layout.h"

#include <algorithm>

#include "runtime/backends/backend.h"
#include "runtime/bundle/storage.h"
#include "runtime/core/residency.h"
#include "runtime/optim/optimizer.h"

namespace mebp {

uint64_t trainableElements(const format::Bundle &bundle, uint32_t index) {
  const format::Trainable &trainable = bundle.trainables(static_cast<int>(index));
  return static_cast<uint64_t>(trainable.rows()) * trainable.columns();
}

uint32_t threadsOf(const mebp_session_options &options) {
  return options.threads ? options.threads : availableThreads();
}

Layout planSession(const format::Bundle &bundle, const mebp_session_options &options) {
  Layout layout;
  Placer placer;
  const format::Model &model = bundle.model();
  uint64_t tokens = static_cast<uint64_t>(model.batch()) * model.sequence();
  layout.checkpointBytes = tokens * storedRowBytes(model.activation(), model.hidden());
  auto count = static_cast<uint32_t>(bundle.blocks_size() - 1);
  layout.spacing = std::clamp(bundle.plan().spacing(), 1u, count);
  layout.missing = (layout.spacing - count % layout.spacing) % layout.spacing;
  uint32_t segments = layout.segmentOf(count - 1) + 1;
  // A block reads one checkpoint and writes the next: both are kept ones only where all are.
  layout.working = options.spill_folder ? std::min(segments, layout.spacing == 1 ? 2u : 1u) : segments;
  std::vector<uint64_t> kept(layout.working, noOffset), shared(layout.spacing, noOffset);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t &place =
        layout.isKept(i) ? kept[layout.segmentOf(i) % layout.working] : shared[(i + layout.missing) % layout.spacing];
    if (place == noOffset)
      place = placer.take(layout.checkpointBytes);
    layout.checkpoints.push_back(place);
  }
  for (uint32_t i = 0; i < count; ++i)
    if (layout.isSpilled(i))
      layout.filedStates = layout.spillOffset(i) + layout.checkpointBytes;
  for (uint64_t &cotangent : layout.cotangents)
    cotangent = placer.take(layout.checkpointBytes);

  layout.trained = placer.total();
  for (uint32_t i = 0; i < static_cast<uint32_t>(bundle.trainables_size()); ++i)
    layout.trainables.push_back(placer.take(trainableBytes(bundle, i)));
  layout.arrayBytes = placer.total() - layout.trained;
  layout.trainedBytes = layout.arrayBytes;
  uint32_t arrays = stateArraysOf(options.optimizer);
  if (options.state_in_file) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < static_cast<uint32_t>(bundle.trainables_size()); ++i)
      largest = std::max(largest, trainableBytes(bundle, i));
    for (uint32_t i = 0; i < arrays; ++i)
      layout.states.push_back(placer.take(largest));
    layout.filedStateBytes = arrays * layout.arrayBytes;
  } else {
    for (uint32_t i = 0; i < arrays; ++i)
      layout.states.push_back(placer.take(layout.arrayBytes));
    layout.trainedBytes += arrays * layout.arrayBytes;
  }
  layout.fileBytes = layout.filedStates + layout.filedStateBytes;

  layout.gradientPlan = planGradients(bundle, gradientUseOf(options));
  layout.gradients = placer.take(layout.gradientPlan.bytes);
  layout.ids = placer.take(tokens * sizeof(int32_t));
  layout.labels = placer.take(tokens * sizeof(int32_t));
  layout.loss = placer.take(sizeof(float));
  layout.scale = placer.take(sizeof(float));
  uint64_t scratch = 0;
  for (const format::Program &program : bundle.programs())
    scratch = std::max<uint64_t>(scratch, program.arena_bytes());
  layout.scratch = placer.take(scratch);
  layout.workspace = placer.take(cpuWorkspaceBytes(threadsOf(options)));
  if (options.resident_limit)
    layout.residency = placer.take(Residency::memoryBytes(bundle.weights_bytes()));
  layout.total = placer.total();
  return layout;
}

} // namespace mebp
