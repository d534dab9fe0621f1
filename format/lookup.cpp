// SPDX-License-Identifier: Apache-2.0
#include "format/lookup.h"

#include <algorithm>

namespace mebp::format {

int32_t programOf(const Block &block, std::string_view name) {
  for (const BlockProgram &program : block.programs())
    if (program.name() == name)
      return static_cast<int32_t>(program.program());
  return noProgram;
}

int32_t gradientProgramOf(const Block &block) {
  int32_t objective = programOf(block, objectiveProgram);
  return objective != noProgram ? objective : programOf(block, backwardProgram);
}

std::vector<int32_t> gradientProgramsOf(const Block &block) {
  std::vector<int32_t> numbers;
  auto add = [&](std::string_view name) {
    if (int32_t number = programOf(block, name); number != noProgram)
      numbers.push_back(number);
  };
  add(objectiveProgram);
  for (const ProgramTraits *forward = forwardPrograms.end(); forward-- != forwardPrograms.begin();)
    add(forward->backward);
  return numbers;
}

uint32_t lowestTrainedOf(const Bundle &bundle) {
  if (bundle.has_split()) // of whose blocks some programs are elsewhere
    return bundle.split().lowest_trained();
  int lowest = bundle.blocks_size() - 1;
  while (lowest > 0 && programOf(bundle.blocks(lowest - 1), backwardProgram) != noProgram)
    --lowest;
  return static_cast<uint32_t>(lowest);
}

const Parameter *findParameter(const Block &block, std::string_view name) {
  for (const Parameter &parameter : block.parameters())
    if (parameter.name() == name)
      return &parameter;
  return nullptr;
}

const Port *findPort(const Ports &ports, Port::Kind kind, std::string_view name) {
  for (const Port &port : ports)
    if (port.kind() == kind && port.name() == name)
      return &port;
  return nullptr;
}

bool isFlow(const Port &port) { return port.kind() == Port::FLOW && !isCotangent(port.name()); }
bool isCotangent(const Port &port) { return port.kind() == Port::FLOW && isCotangent(port.name()); }
bool isRemote(const Port &port, bool ofCotangents) {
  return port.kind() == Port::REMOTE && isCotangent(port.name()) == ofCotangents;
}

const Port *findPlaceOf(const Program &program, const Port &output) {
  const Port *same = findPort(program.inputs(), Port::FLOW, output.name());
  return same ? same : findPort(program.inputs(), Port::FLOW, flowOf(output.name()));
}

bool givesResult(const ProgramTraits &program, std::string_view port) {
  if (port == logitsPort)
    return program.is(GivesLogits);
  return program.is(GivesLogProbabilities) && (port == logProbabilitiesPort || port == entropyPort);
}

// Null where the program has none.
static const Port *findStepPort(const Program &program, const StepPort &port) {
  return port.isResult ? findPort(program.outputs(), Port::RESULT, port.name)
                       : findPort(program.inputs(), Port::BATCH, port.name);
}

bool hasStepPort(const Bundle &bundle, const StepPort &port) {
  return std::any_of(bundle.programs().begin(), bundle.programs().end(),
                     [&](const Program &program) { return findStepPort(program, port); });
}

StepShape stepShapeOf(const Bundle &bundle) {
  StepShape shape = {mostTokens(bundle.model()), static_cast<uint64_t>(bundle.blocks_size()), 0};
  for (const Program &program : bundle.programs())
    for (const StepPort &port : stepPorts)
      if (const Port *found = port.ofExperts ? findStepPort(program, port) : nullptr)
        shape.experts = valueOf(program, *found).columns();
  return shape;
}

std::vector<uint32_t> routedBlocks(const Bundle &bundle) {
  std::vector<uint32_t> routed;
  for (int i = 0; i < bundle.blocks_size(); ++i)
    if (int32_t forward = programOf(bundle.blocks(i), forwardProgram);
        forward != noProgram && findPort(bundle.programs(forward).outputs(), Port::RESULT, expertCountsPort))
      routed.push_back(static_cast<uint32_t>(i));
  return routed;
}

bool selectsRows(const Bundle &half) {
  return half.split().end_block() + 1 == static_cast<uint32_t>(half.blocks_size());
}

bool givesGradients(const Program &program) {
  return std::any_of(program.outputs().begin(), program.outputs().end(),
                     [](const Port &port) { return port.kind() == Port::GRADIENT || isCotangent(port); });
}

uint64_t trainableElements(const Bundle &bundle, uint32_t index) {
  const Trainable &trainable = bundle.trainables(static_cast<int>(index));
  return static_cast<uint64_t>(trainable.rows()) * trainable.columns();
}

TrainedShape trainedShape(const Bundle &bundle, uint32_t index) {
  const Trainable &trainable = bundle.trainables(static_cast<int>(index));
  return {trainable.rows(), trainable.columns(), trainable.rank()};
}

} // namespace mebp::format
