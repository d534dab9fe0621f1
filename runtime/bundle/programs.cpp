// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/programs.h"

#include <algorithm>
#include <iterator>

namespace mebp {

using format::Port;

int32_t programOf(const format::Block &block, std::string_view name) {
  for (const format::BlockProgram &program : block.programs())
    if (program.name() == name)
      return static_cast<int32_t>(program.program());
  return noProgram;
}

int32_t gradientProgramOf(const format::Block &block) {
  int32_t objective = programOf(block, format::objectiveProgram);
  return objective != noProgram ? objective : programOf(block, format::backwardProgram);
}

std::vector<int32_t> gradientProgramsOf(const format::Block &block) {
  std::vector<int32_t> numbers;
  auto add = [&](std::string_view name) {
    if (int32_t number = programOf(block, name); number != noProgram)
      numbers.push_back(number);
  };
  add(format::objectiveProgram);
  for (size_t i = std::size(format::forwardPrograms); i-- > 0;)
    add(format::forwardPrograms[i].backward);
  return numbers;
}

const format::Parameter *findParameter(const format::Block &block, std::string_view name) {
  for (const format::Parameter &parameter : block.parameters())
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

bool isFlow(const Port &port) { return port.kind() == Port::FLOW && !format::isCotangent(port.name()); }
bool isCotangent(const Port &port) { return port.kind() == Port::FLOW && format::isCotangent(port.name()); }
bool isRemote(const Port &port, bool ofCotangents) {
  return port.kind() == Port::REMOTE && format::isCotangent(port.name()) == ofCotangents;
}

const Port *findPlaceOf(const format::Program &program, const Port &output) {
  const Port *same = findPort(program.inputs(), Port::FLOW, output.name());
  return same ? same : findPort(program.inputs(), Port::FLOW, format::flowOf(output.name()));
}

bool givesResult(const KnownProgram &program, std::string_view port) {
  if (port == format::logitsPort)
    return program.givesLogits;
  return program.givesLogProbabilities && (port == format::logProbabilitiesPort || port == format::entropyPort);
}

// Null where the program has none.
static const Port *findStepPort(const format::Program &program, const format::StepPort &port) {
  return port.isResult ? findPort(program.outputs(), Port::RESULT, port.name)
                       : findPort(program.inputs(), Port::BATCH, port.name);
}

bool hasStepPort(const format::Bundle &bundle, const format::StepPort &port) {
  return std::any_of(bundle.programs().begin(), bundle.programs().end(),
                     [&](const format::Program &program) { return findStepPort(program, port); });
}

format::StepShape stepShapeOf(const format::Bundle &bundle) {
  const format::Model &model = bundle.model();
  format::StepShape shape = {static_cast<uint64_t>(model.batch()) * model.sequence(),
                             static_cast<uint64_t>(bundle.blocks_size()), 0};
  for (const format::Program &program : bundle.programs())
    for (const format::StepPort &port : format::stepPorts)
      if (const Port *found = port.ofExperts ? findStepPort(program, port) : nullptr)
        shape.experts = valueOf(program, *found).columns();
  return shape;
}

std::vector<uint32_t> routedBlocks(const format::Bundle &bundle) {
  std::vector<uint32_t> routed;
  for (int i = 0; i < bundle.blocks_size(); ++i)
    if (int32_t forward = programOf(bundle.blocks(i), format::forwardProgram);
        forward != noProgram && findPort(bundle.programs(forward).outputs(), Port::RESULT, format::expertCountsPort))
      routed.push_back(static_cast<uint32_t>(i));
  return routed;
}

bool selectsRows(const format::Bundle &half) {
  return half.split().end_block() + 1 == static_cast<uint32_t>(half.blocks_size());
}

bool givesGradients(const format::Program &program) {
  return std::any_of(program.outputs().begin(), program.outputs().end(),
                     [](const Port &port) { return port.kind() == Port::GRADIENT || isCotangent(port); });
}

} // namespace mebp
