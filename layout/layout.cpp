// SPDX-License-Identifier: Apache-2.0
#include "layout/layout.h"

#include <algorithm>

#include "format/lookup.h"
#include "format/residency.h"
#include "format/split.h"
#include "layout/arena.h"

namespace mebp::layout {

uint64_t largestMessage(const format::Bundle &bundle) {
  uint64_t largest = mostTokens(bundle.model()) * sizeof(int32_t);
  for (const format::Program &program : bundle.programs()) {
    uint64_t in = 0, out = 0;
    auto add = [&](const format::Port &port, uint64_t &sum) {
      const format::Value &value = valueOf(program, port);
      const uint64_t bytes = value.rows() * rowBytesOf(value);
      if (port.kind() == format::Port::FLOW)
        largest = std::max(largest, bytes);
      else if (port.kind() == format::Port::REMOTE)
        sum += bytes;
    };
    for (const format::Port &port : program.inputs())
      if (!format::isCotangent(port.name()) || !givesGradients(program))
        add(port, in);
    for (const format::Port &port : program.outputs())
      add(port, out);
    largest = std::max({largest, in, out});
  }
  return largest;
}

uint64_t wireBytes(const format::Bundle &bundle) {
  return bundle.has_split() ? format::bytesOfKeptFrames(largestMessage(bundle)) : 0;
}

// What only a session that runs steps has.
static void planStep(const format::Bundle &bundle, const Choice &choice, Placer &memory, Placer &lane, Placer &file,
                     Layout &layout) {
  const format::StepShape shape = stepShapeOf(bundle);
  layout.lane.checkpoints = planCheckpoints(bundle, choice, lane, file);
  layout.lane.remote = planRemote(bundle, false, !choice.forwardOnly, lane);
  layout.trainables = planTrainables(bundle, choice, memory, file);
  Placer head;
  std::array<uint64_t, std::size(format::stepPorts)> &stepPorts = layout.lane.stepPorts;
  for (size_t i = 0; i < stepPorts.size(); ++i) {
    const format::StepPort &port = format::stepPorts[i];
    const uint64_t bytes = format::bytesOf(port, shape);
    if (bytes && (!port.ofSome || hasStepPort(bundle, port)))
      stepPorts[i] = (port.ofHead ? head : lane).take(bytes);
  }
  layout.gradients = planGradients(bundle, choice, head.total(), subspaceSumBytes(bundle, choice), memory, lane);
  layout.subspaces = planSubspaces(bundle, choice, layout.gradients.begin, memory);
  for (size_t i = 0; i < stepPorts.size(); ++i)
    if (format::stepPorts[i].ofHead && stepPorts[i] != noOffset)
      stepPorts[i] += layout.gradients.head;
}

Layout planSession(const format::Bundle &bundle, const Choice &choice) {
  Layout layout;
  Placer memory, lane, file;
  layout.lane.stepPorts.fill(noOffset);
  if (choice.generateOnly)
    layout.trainables = planTrainables(bundle, choice, memory, file);
  else
    planStep(bundle, choice, memory, lane, file, layout);
  layout.lane.wire = lane.take(wireBytes(bundle));
  layout.lane.bytes = lane.total();
  layout.lanes = memory.take(layout.lane.bytes);
  for (uint32_t further = 1; further < choice.lanes; ++further)
    memory.take(layout.lane.bytes);
  if (!choice.generateOnly && !choice.placesValues)
    layout.scratch = memory.take(largestArena(programsRun(bundle, false, choice.forwardOnly)));
  layout.workspace = memory.take(choice.workspace);
  if (choice.limitsResidency)
    layout.residency = memory.take(format::residencyBytes(bundle.weights_bytes()));
  layout.fileBytes = file.total();
  layout.total = memory.total();
  const format::Plan &plan = bundle.plan();
  if (choice.placesValues)
    layout.device = choice.generateOnly ? plan.generation_device_bytes() : plan.device_bytes();
  return layout;
}

} // namespace mebp::layout
