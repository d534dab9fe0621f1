// SPDX-License-Identifier: Apache-2.0
#include "layout/facts.h"

#include <algorithm>

#include "format/kernels.h"
#include "format/split.h"

namespace mebp::layout {

using format::Port;

namespace {

void addPassed(const format::Program &program, const Port &port, bool isReadAgain, bool isForward,
               std::vector<Passed> &passed) {
  if (port.kind() != Port::REMOTE && port.kind() != Port::KEPT && port.kind() != Port::SHARED)
    return;
  auto entry = std::find_if(passed.begin(), passed.end(),
                            [&](const Passed &one) { return one.kind == port.kind() && one.name == port.name(); });
  if (entry == passed.end()) {
    const format::Value &value = valueOf(program, port);
    const uint64_t rowBytes = rowBytesOf(value);
    passed.push_back({port.kind(), port.name(), rowBytes, value.rows() * rowBytes});
    entry = passed.end() - 1;
  }
  entry->isReadAgain |= isReadAgain;
  entry->isForward |= isForward;
}

bool anyFlow(const format::Ports &ports) {
  return std::any_of(ports.begin(), ports.end(), [](const Port &port) { return port.kind() == Port::FLOW; });
}

void addProgram(const format::Program &program, bool isForward, ProgramFacts &facts) {
  facts.flowsInPlace &= program.in_place() || !anyFlow(program.inputs()) || !anyFlow(program.outputs());
  facts.arena = std::max<uint64_t>(facts.arena, program.arena_bytes());
  if (isForward)
    facts.forwardArena = std::max<uint64_t>(facts.forwardArena, program.arena_bytes());
  for (const Port &port : program.inputs())
    addPassed(program, port, !isForward && !format::isCotangent(port.name()), isForward, facts.passed);
  for (const Port &port : program.outputs())
    addPassed(program, port, false, isForward, facts.passed);
}

// 0 where it has none of this name.
uint64_t numberOf(const format::Kernel &kernel, std::string_view name) {
  for (const format::Attribute &attribute : kernel.attributes())
    if (attribute.name() == name)
      return static_cast<uint64_t>(attribute.number());
  return 0;
}

// The widest window that a kernel of the program reads a state of this size through; 0: one reads all of it.
uint64_t windowOf(const format::Program &program, uint64_t capacity, uint64_t positions) {
  uint64_t widest = 0;
  if (capacity >= positions)
    return 0;
  for (const format::Step &step : program.steps()) {
    if (step.has_kernel() && numberOf(step.kernel(), "capacity") == capacity)
      widest = std::max(widest, numberOf(step.kernel(), "window"));
  }
  return widest;
}

// Whether a kernel carries this value on from row to row, and from step to step.
bool isCarried(const format::Program &program, uint32_t value) {
  for (const format::Step &step : program.steps()) {
    const format::KernelSignature *signature = step.has_kernel() && numberOf(step.kernel(), "items") > 0
                                                   ? format::findSignature(step.kernel().name())
                                                   : nullptr;
    const int count =
        signature ? std::min<int>(step.kernel().operands_size(), format::slotCount(signature->operands)) : 0;
    for (int i = 0; i < count; ++i)
      if (signature->operands[i].carry != format::Carry::No && step.kernel().operands(i) == static_cast<int32_t>(value))
        return true;
  }
  return false;
}

void addGeneration(const format::Model &model, const format::Program &program, BlockFacts &facts) {
  for (const Port &port : program.inputs()) {
    if (port.kind() != Port::STATE)
      continue;
    const format::Value &value = valueOf(program, port);
    KeptState state;
    state.name = port.name();
    state.capacity = value.rows() / model.batch();
    state.rowBytes = rowBytesOf(value);
    state.bytes = value.rows() * state.rowBytes;
    state.isCarried = isCarried(program, port.value());
    state.window = state.isCarried ? 0 : windowOf(program, state.capacity, model.positions());
    facts.states.push_back(state);
  }
  for (const Port &port : program.outputs())
    if (port.kind() == Port::FLOW)
      facts.generatedRows = valueOf(program, port).rows();
}

BlockFacts blockFactsOf(const format::Bundle &bundle, int number) {
  const format::Block &block = bundle.blocks(number);
  const bool isHead = number + 1 == bundle.blocks_size();
  BlockFacts facts;
  facts.runsHere = programOf(block, format::forwardProgram) != format::noProgram;
  for (const format::ProgramTraits &use : format::knownPrograms)
    if (int32_t program = programOf(block, use.name); program != format::noProgram)
      addProgram(bundle.programs(program), !use.is(format::GivesGradients),
                 use.is(format::Generates) ? facts.generating : facts.training);
  if (!isHead) {
    facts.training.behind = borderBehind(bundle, number, false);
    facts.generating.behind = borderBehind(bundle, number, true);
  }
  for (int32_t program : gradientProgramsOf(block))
    for (const Port &output : bundle.programs(program).outputs())
      if (output.kind() == Port::GRADIENT)
        facts.gradients.push_back(findParameter(block, output.name())->trainable());
  if (programOf(block, format::rangeProgram) != format::noProgram)
    for (const format::Parameter &parameter : block.parameters())
      if (parameter.has_trainable() && bundle.trainables(static_cast<int>(parameter.trainable())).rank() > 0)
        facts.projected.push_back(parameter.trainable());
  if (int32_t program = programOf(block, format::generatingProgramOf(isHead)); program != format::noProgram)
    addGeneration(bundle.model(), bundle.programs(program), facts);
  return facts;
}

uint32_t numberOf(const format::TrainedShape &shape, std::vector<format::TrainedShape> &shapes) {
  auto known = std::find_if(shapes.begin(), shapes.end(), [&](const format::TrainedShape &one) {
    return one.rows == shape.rows && one.columns == shape.columns && one.rank == shape.rank;
  });
  if (known == shapes.end())
    known = shapes.insert(shapes.end(), shape);
  return static_cast<uint32_t>(known - shapes.begin());
}

ModelFacts modelFactsOf(const format::Bundle &bundle) {
  ModelFacts facts;
  for (int i = 0; i < bundle.trainables_size(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const format::TrainedShape shape = trainedShape(bundle, index);
    facts.trainables.push_back({shape, numberOf(shape, facts.shapes), WeightParts(bundle.trainables(i)).bytes(),
                                gradientBytes(bundle, index),
                                storageOf(bundle.trainables(i)) == format::Storage::Int8});
  }
  const format::StepShape shape = stepShapeOf(bundle);
  for (size_t i = 0; i < facts.stepPorts.size(); ++i)
    if (const format::StepPort &port = format::stepPorts[i]; !port.ofSome || hasStepPort(bundle, port))
      facts.stepPorts[i] = format::bytesOf(port, shape);
  facts.lowestTrained = lowestTrainedOf(bundle);
  facts.isSplit = bundle.has_split();
  facts.isGathered = facts.isSplit && bundle.split().place() == format::Split::DEVICE && selectsRows(bundle);
  facts.wire = wireBytes(bundle);
  facts.weights = bundle.weights_bytes();
  if (facts.isSplit)
    facts.history = uint64_t(bundle.model().batch()) * bundle.model().positions() * sizeof(int32_t);
  return facts;
}

} // namespace

Facts factsOf(const format::Bundle &bundle) {
  Facts facts;
  facts.model = std::make_shared<ModelFacts>(modelFactsOf(bundle));
  for (int i = 0; i < bundle.blocks_size(); ++i)
    facts.blocks.push_back(std::make_shared<BlockFacts>(blockFactsOf(bundle, i)));
  return facts;
}

std::vector<Border> bordersOf(const Facts &facts, bool generates) {
  std::vector<Border> borders;
  for (size_t i = 0; i + 1 < facts.blocks.size(); ++i)
    borders.push_back(facts.blocks[i]->programs(generates).behind);
  return borders;
}

uint64_t largestMessage(const format::Bundle &bundle) {
  uint64_t largest = mostTokens(bundle.model()) * sizeof(int32_t);
  for (const format::Program &program : bundle.programs()) {
    uint64_t in = 0, out = 0;
    auto add = [&](const Port &port, uint64_t &sum) {
      const format::Value &value = valueOf(program, port);
      const uint64_t bytes = value.rows() * rowBytesOf(value);
      if (port.kind() == Port::FLOW)
        largest = std::max(largest, bytes);
      else if (port.kind() == Port::REMOTE)
        sum += bytes;
    };
    for (const Port &port : program.inputs())
      if (!format::isCotangent(port.name()) || !givesGradients(program))
        add(port, in);
    for (const Port &port : program.outputs())
      add(port, out);
    largest = std::max({largest, in, out});
  }
  return largest;
}

uint64_t wireBytes(const format::Bundle &bundle) {
  return bundle.has_split() ? format::bytesOfKeptFrames(largestMessage(bundle)) : 0;
}

} // namespace mebp::layout
