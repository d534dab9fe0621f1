// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/bind.h"

namespace mebp {

using format::Port;

namespace {

// Where the ports of one block's program lie. What no case knows, validation has refused.
class Binder {
public:
  Binder(const BoundMemory &memory, uint32_t block, const format::ProgramTraits &use)
      : memory(memory), number(block), block(memory.bundle.content().blocks(static_cast<int>(block))), use(use) {}

  Binding input(const Port &port) {
    return isCotangent(port) ? cotangent(format::addsCotangents(use.name) ? number - 1 : number, port) : bind(port);
  }
  Binding output(const Port &port) {
    if (isCotangent(port))
      return cotangent(number - 1, port);
    return port.kind() == Port::FLOW ? at(memory.checkpoints.outputOf(number, port.name())) : bind(port);
  }

private:
  Binding bind(const Port &port) {
    if (const std::string_view suffix = format::thinSuffixOf(port.name()); !suffix.empty())
      return thin(findParameter(block, format::parameterOf(port.name()))->trainable(), suffix);
    switch (port.kind()) {
    case Port::FLOW:
      return at(memory.checkpoints.inputOf(number, port.name(), use.is(format::GivesGradients)));
    case Port::PARAMETER: {
      const format::Parameter &parameter = *findParameter(block, port.name());
      return parameter.has_weight() ? weight(parameter.weight())
                                    : stored(memory.trainables.place(parameter.trainable()));
    }
    case Port::GRADIENT:
      return at(memory.gradients.outputOf(number, gradients++));
    case Port::REMOTE:
    case Port::KEPT:
    case Port::SHARED:
      return at(memory.remote.at(number, port));
    case Port::STATE:
      return at((*memory.states)[number][states++]);
    case Port::BATCH:
    case Port::RESULT:
      return at(memory.batch.find(port.name(), number));
    default:
      return {};
    }
  }
  Binding thin(uint32_t trainable, std::string_view suffix) {
    if (suffix == format::projectorSuffix)
      return stored(memory.trainables.projectorPlace(trainable));
    return at(suffix == format::sketchSuffix ? memory.subspaces.sketchOf(number, trainable)
                                             : memory.subspaces.rangeOf(number, trainable));
  }
  Binding cotangent(uint32_t giver, const Port &port) {
    return at(memory.checkpoints.cotangentOf(giver, format::flowOf(port.name())));
  }
  Binding weight(uint32_t index) {
    if (!memory.bundle.hasAllWeights())
      return {};
    const WeightMemory lies = memory.bundle.weightMemory(index);
    return {memory.buffers.find(lies.data), memory.buffers.find(lies.scales), memory.buffers.find(lies.minima)};
  }
  Binding stored(const StoredPlace &place) {
    return {memory.buffers.find(place.data), memory.buffers.find(place.scales), memory.buffers.find(place.minima)};
  }
  Binding at(const void *data) { return {memory.buffers.find(data), {}, {}}; }

  const BoundMemory &memory;
  uint32_t number;
  const format::Block &block;
  const format::ProgramTraits &use;
  uint32_t gradients = 0, states = 0; // so far
};

} // namespace

std::vector<BoundWeight> weightsOf(const format::Block &block, const format::Program &program) {
  std::vector<BoundWeight> weights;
  for (uint32_t i = 0; i < static_cast<uint32_t>(program.inputs_size()); ++i) {
    const Port &port = program.inputs(static_cast<int>(i));
    const format::Parameter *parameter = port.kind() == Port::PARAMETER ? findParameter(block, port.name()) : nullptr;
    if (parameter && parameter->has_weight())
      weights.push_back({i, parameter->weight()});
  }
  return weights;
}

BoundProgram bind(const BoundMemory &memory, uint32_t block, const format::ProgramTraits &use) {
  const format::Bundle &content = memory.bundle.content();
  const format::Block &owning = content.blocks(static_cast<int>(block));
  BoundProgram bound;
  bound.program = programOf(owning, use.name);
  bound.use = &use;
  bound.block = block;
  if (bound.program == format::noProgram)
    return bound;
  const format::Program &program = content.programs(bound.program);
  Binder binder(memory, block, use);
  bound.bindings.reserve(program.inputs().size() + program.outputs().size());
  for (const Port &port : program.inputs())
    bound.bindings.push_back(binder.input(port));
  for (const Port &port : program.outputs())
    bound.bindings.push_back(binder.output(port));
  return bound;
}

} // namespace mebp
