// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/layout.h"

#include <algorithm>

#include "format/residency.h"
#include "runtime/bundle/programs.h"
#include "runtime/train/exchange.h"
#include "runtime/train/options.h"

namespace mebp {

static uint64_t largestArena(const format::Bundle &bundle, bool forwardOnly) {
  uint64_t largest = 0;
  for (const format::Block &block : bundle.blocks())
    for (const KnownProgram &use : knownPrograms) {
      int32_t number = programOf(block, use.name);
      if (number != noProgram && !use.generates && !(forwardOnly && use.givesGradients))
        largest = std::max<uint64_t>(largest, bundle.programs(number).arena_bytes());
    }
  return largest;
}

// What every session has, whatever it runs.
static Layout withMachine(Layout layout, const format::Bundle &bundle, const mebp_session_options &options,
                          const Backend &backend, Placer &memory) {
  layout.workspace = memory.take(backend.workspaceBytes());
  layout.wire = memory.take(Exchange::memoryBytes(bundle));
  if (options.resident_limit)
    layout.residency = memory.take(format::residencyBytes(bundle.weights_bytes()));
  layout.total = memory.total();
  const format::Plan &plan = bundle.plan();
  if (!backend.followsPlacements())
    layout.device = options.generate_only ? plan.generation_device_bytes() : plan.device_bytes();
  return layout;
}

Layout planSession(const format::Bundle &bundle, const mebp_session_options &options, const Backend &backend) {
  Layout layout;
  Placer memory, file;
  uint64_t tokens = static_cast<uint64_t>(bundle.model().batch()) * bundle.model().sequence();
  layout.stepPorts.fill(noOffset);
  if (options.generate_only) {
    layout.trainables = planTrainables(bundle, options, memory, file);
    layout.fileBytes = file.total();
    return withMachine(layout, bundle, options, backend, memory);
  }
  layout.checkpoints = planCheckpoints(bundle, options, memory, file);
  layout.remote = planRemote(bundle, false, !isForwardOnly(options), memory);
  layout.trainables = planTrainables(bundle, options, memory, file);
  Placer head;
  for (size_t i = 0; i < layout.stepPorts.size(); ++i)
    if (uint64_t bytes = format::bytesOf(format::stepPorts[i], tokens))
      layout.stepPorts[i] = (format::stepPorts[i].ofHead ? head : memory).take(bytes);
  layout.gradients = planGradients(bundle, options, head.total(), subspaceSumBytes(bundle, options), memory);
  layout.subspaces = planSubspaces(bundle, options, layout.gradients.begin, memory);
  for (size_t i = 0; i < layout.stepPorts.size(); ++i)
    if (format::stepPorts[i].ofHead && layout.stepPorts[i] != noOffset)
      layout.stepPorts[i] += layout.gradients.head;
  layout.scratch = memory.take(backend.followsPlacements() ? largestArena(bundle, isForwardOnly(options)) : 0);
  layout.fileBytes = file.total();
  return withMachine(layout, bundle, options, backend, memory);
}

} // namespace mebp
