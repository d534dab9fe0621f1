// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "format/alignment.h"
#include "format/lookup.h"
#include "format/storage.h"
#include "runtime/bundle/program_validator.h"
#include "runtime/bundle/validate.h"

namespace mebp {

using format::Extent;
using format::Placement;
using format::Port;

Status validateProgram(const format::Program &program, const format::Model &model) {
  return ProgramValidator(program, model).run().in("program '" + program.name() + "'");
}

ProgramValidator::ProgramValidator(const format::Program &program, const format::Model &model)
    : program(program), model(model), states(program.values_size()) {}

Status ProgramValidator::run() {
  if (program.arena_bytes() > uint64_t(1) << 48)
    return failure(MEBP_CORRUPT, "the arena is larger than any machine's memory");
  if (Status status = findLoops(program.steps()); !status.ok())
    return status;
  if (loops.size() != program.loops() ||
      std::any_of(loops.begin(), loops.end(), [](const Loop &loop) { return !loop.step; }))
    return failure(MEBP_CORRUPT, "loops are not numbered from 0");
  if (Status status = checkValues(); !status.ok())
    return status;
  if (Status status = defineInputs(); !status.ok())
    return status;
  if (Status status = declareOutputs(); !status.ok())
    return status;
  Values defined;
  if (Status status = walk(program.steps(), defined); !status.ok())
    return status;
  for (const format::Port &output : program.outputs())
    if (!states[output.value()].defined)
      return failure(MEBP_CORRUPT, "output %u is never written", output.value());
  return checkInPlace();
}

// Whether reads come before writes is the compiler's to know; here, that one memory holds either.
Status ProgramValidator::checkInPlace() const {
  if (!program.in_place())
    return Status();
  bool flows = false, fits = true;
  for (const Port &output : program.outputs()) {
    if (output.kind() != Port::FLOW)
      continue;
    flows = true;
    const Port *place = findPlaceOf(program, output);
    fits &= place && sameShape(place->value(), output.value());
  }
  return flows && fits ? Status() : failure(MEBP_CORRUPT, "it is in place, but gives what fits nothing that it takes");
}

Dimension ProgramValidator::rowsOf(uint32_t index) const {
  return {value(index).rows(), value(index).row_extent().kind(), value(index).row_extent().loop()};
}

Dimension ProgramValidator::columnsOf(uint32_t index) const {
  return {value(index).columns(), value(index).column_extent().kind(), value(index).column_extent().loop()};
}

bool ProgramValidator::isTokenRows(const Dimension &dimension) const {
  return dimension.kind == Extent::TOKENS || (dimension.kind == Extent::LOOP && loops[dimension.loop].overTokens());
}

Status ProgramValidator::findLoops(const Steps &steps) {
  for (const format::Step &step : steps) {
    if (!step.has_loop())
      continue;
    const format::Loop &loop = step.loop();
    if (loop.loop() >= program.loops() || loop.loop() > (1u << 16))
      return failure(MEBP_CORRUPT, "loop %u is beyond the program's loops", loop.loop());
    if (loop.loop() >= loops.size())
      loops.resize(loop.loop() + 1);
    if (loops[loop.loop()].step)
      return failure(MEBP_CORRUPT, "loop %u appears twice", loop.loop());
    if (loop.size() == 0 || loop.domain() < format::Loop::SEQUENCE || loop.domain() > format::Loop::WEIGHT_ROWS)
      return failure(MEBP_CORRUPT, "loop %u has no size or no known domain", loop.loop());
    if (loop.domain() == format::Loop::WEIGHT_ROWS &&
        (!known(loop.domain_value()) || rowsOf(loop.domain_value()).kind != Extent::STATIC))
      return failure(MEBP_CORRUPT, "loop %u has no whole weight for its domain", loop.loop());
    loops[loop.loop()].step = &loop;
    if (Status status = findLoops(loop.steps()); !status.ok())
      return status;
  }
  return Status();
}

uint64_t ProgramValidator::tripRows(const Loop &loop) const {
  uint64_t domain = tokens;
  if (!loop.overTokens())
    domain = value(loop.step->domain_value()).rows();
  else if (loop.step->domain() != format::Loop::TOKEN_ROWS)
    domain = std::min<uint64_t>(tokens, model.sequence()); // a chunk stays within its batch item
  return std::min<uint64_t>(loop.step->size(), domain);
}

Status ProgramValidator::checkExtent(uint32_t index, const Dimension &dimension, bool ofRows) const {
  if (dimension.count == 0 || dimension.count > maximumExtent)
    return failure(MEBP_CORRUPT, "value %u has an impossible size", index);
  if (dimension.kind == Extent::STATIC)
    return Status();
  if (dimension.kind == Extent::TOKENS && ofRows)
    return dimension.count == tokens
               ? Status()
               : failure(MEBP_CORRUPT, "value %u has a different number of tokens than the others", index);
  if (dimension.kind != Extent::LOOP || dimension.loop >= loops.size())
    return failure(MEBP_CORRUPT, "value %u has an unknown extent", index);
  const Loop &loop = loops[dimension.loop];
  if (!ofRows && loop.overTokens())
    return failure(MEBP_CORRUPT, "value %u has columns that run over tokens", index);
  return dimension.count >= tripRows(loop)
             ? Status()
             : failure(MEBP_CORRUPT, "value %u is smaller than a trip of its loop", index);
}

Status ProgramValidator::checkValues() {
  for (int i = 0; i < program.values_size() && !tokens; ++i)
    if (program.values(i).row_extent().kind() == Extent::TOKENS)
      tokens = program.values(i).rows();
  uint64_t most = mostTokens(model);
  tokens = tokens ? tokens : most;
  if (tokens > most)
    return failure(MEBP_CORRUPT, "it has more tokens than batch * sequence");
  for (uint32_t i = 0; i < states.size(); ++i) {
    if (format::storageOf(value(i).element()) == format::Storage::Unknown)
      return failure(MEBP_CORRUPT, "value %u has an unknown element type", i);
    if (!holdsColumns(format::storageOf(value(i).element()), value(i).columns()))
      return failure(MEBP_CORRUPT, "value %u has rows that are no whole blocks", i);
    if (Status status = checkExtent(i, rowsOf(i), true); !status.ok())
      return status;
    if (Status status = checkExtent(i, columnsOf(i), false); !status.ok())
      return status;
    if (Status status = checkPlacement(i); !status.ok())
      return status;
  }
  return Status();
}

Status ProgramValidator::checkPlacement(uint32_t index) const {
  const format::Value &current = value(index);
  const Placement &placement = current.placement();
  if (placement.kind() == Placement::ARENA) {
    uint64_t bytes = format::storedSize(current).dataBytes;
    if (placement.offset() % format::alignment != 0)
      return failure(MEBP_CORRUPT, "value %u is not aligned in the arena", index);
    if (placement.offset() > program.arena_bytes() || bytes > program.arena_bytes() - placement.offset())
      return failure(MEBP_CORRUPT, "value %u reaches beyond the arena", index);
    return Status();
  }
  if (placement.kind() == Placement::ALIAS) {
    if (!known(placement.alias()) || value(placement.alias()).placement().kind() != Placement::BOUND)
      return failure(MEBP_CORRUPT, "value %u is an alias, but not of a bound value", index);
    if (!sameShape(index, placement.alias()))
      return failure(MEBP_CORRUPT, "value %u does not fit the value that it is an alias of", index);
    return Status();
  }
  if (placement.kind() != Placement::BOUND && placement.kind() != Placement::VIEW)
    return failure(MEBP_UNSUPPORTED, "value %u has a placement that this runtime does not know; use a newer one",
                   index);
  return Status();
}

// What its kind and name ask of it, the bundle checks.
Status ProgramValidator::checkPorts(const format::Ports &ports) const {
  std::set<std::pair<int, std::string_view>> names;
  for (const Port &port : ports)
    if (!names.insert({port.kind(), port.name()}).second)
      return failure(MEBP_CORRUPT, "it has two ports '%s' of one kind", port.name().c_str());
  return Status();
}

Status ProgramValidator::defineInputs() {
  for (const Port &input : program.inputs()) {
    if (!known(input.value()) || states[input.value()].everDefined ||
        value(input.value()).placement().kind() != Placement::BOUND)
      return failure(MEBP_CORRUPT, "an input is not a bound value of its own");
    State &state = states[input.value()];
    state.defined = state.everDefined = state.input = true;
    state.port = &input;
    const format::Storage storage = storageOf(input.value());
    bool fits = storage == format::Storage::I32 ? input.kind() == Port::BATCH
                                                : isFloat(storage) || input.kind() == Port::PARAMETER;
    if (!fits)
      return failure(MEBP_CORRUPT, "input %u has the wrong element type", input.value());
  }
  return checkPorts(program.inputs());
}

Status ProgramValidator::declareOutputs() {
  for (const Port &output : program.outputs()) {
    if (!known(output.value()) || states[output.value()].input || states[output.value()].output ||
        value(output.value()).placement().kind() != Placement::BOUND)
      return failure(MEBP_CORRUPT, "an output is not a bound value of its own");
    if (!isFloat(storageOf(output.value())))
      return failure(MEBP_CORRUPT, "output %u has the wrong element type", output.value());
    states[output.value()].output = true;
  }
  return checkPorts(program.outputs());
}

} // namespace mebp
