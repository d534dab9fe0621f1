// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/layout.h"

#include <algorithm>

#include "format/lookup.h"
#include "format/residency.h"
#include "runtime/train/exchange.h"
#include "runtime/train/options.h"

namespace mebp {

static uint64_t largestArena(const format::Bundle &bundle, bool forwardOnly) {
  uint64_t largest = 0;
  for (const format::Block &block : bundle.blocks())
    for (const format::ProgramTraits &use : format::knownPrograms) {
      int32_t number = programOf(block, use.name);
      if (number != format::noProgram && !use.is(format::Generates) && !(forwardOnly && use.is(format::GivesGradients)))
        largest = std::max<uint64_t>(largest, bundle.programs(number).arena_bytes());
    }
  return largest;
}

// What only a session that runs steps has.
static void planStep(const format::Bundle &bundle, const mebp_session_options &options, Placer &memory, Placer &lane,
                     Placer &file, Layout &layout) {
  const format::StepShape shape = stepShapeOf(bundle);
  layout.lane.checkpoints = planCheckpoints(bundle, options, lane, file);
  layout.lane.remote = planRemote(bundle, false, !isForwardOnly(options), lane);
  layout.trainables = planTrainables(bundle, options, memory, file);
  Placer head;
  std::array<uint64_t, std::size(format::stepPorts)> &stepPorts = layout.lane.stepPorts;
  for (size_t i = 0; i < stepPorts.size(); ++i) {
    const format::StepPort &port = format::stepPorts[i];
    const uint64_t bytes = format::bytesOf(port, shape);
    if (bytes && (!port.ofSome || hasStepPort(bundle, port)))
      stepPorts[i] = (port.ofHead ? head : lane).take(bytes);
  }
  layout.gradients = planGradients(bundle, options, head.total(), subspaceSumBytes(bundle, options), memory, lane);
  layout.subspaces = planSubspaces(bundle, options, layout.gradients.begin, memory);
  for (size_t i = 0; i < stepPorts.size(); ++i)
    if (format::stepPorts[i].ofHead && stepPorts[i] != noOffset)
      stepPorts[i] += layout.gradients.head;
}

Layout planSession(const format::Bundle &bundle, const mebp_session_options &options, const Backend &backend) {
  Layout layout;
  Placer memory, lane, file;
  layout.lane.stepPorts.fill(noOffset);
  if (options.generate_only)
    layout.trainables = planTrainables(bundle, options, memory, file);
  else
    planStep(bundle, options, memory, lane, file, layout);
  layout.lane.wire = lane.take(Exchange::memoryBytes(bundle));
  layout.lane.bytes = lane.total();
  layout.lanes = memory.take(layout.lane.bytes);
  for (uint32_t further = 1; further < countLanes(options); ++further)
    memory.take(layout.lane.bytes);
  if (!options.generate_only && backend.followsPlacements())
    layout.scratch = memory.take(largestArena(bundle, isForwardOnly(options)));
  layout.workspace = memory.take(backend.workspaceBytes());
  if (options.resident_limit)
    layout.residency = memory.take(format::residencyBytes(bundle.weights_bytes()));
  layout.fileBytes = file.total();
  layout.total = memory.total();
  const format::Plan &plan = bundle.plan();
  if (!backend.followsPlacements())
    layout.device = options.generate_only ? plan.generation_device_bytes() : plan.device_bytes();
  return layout;
}

} // namespace mebp
