// SPDX-License-Identifier: Apache-2.0
//
// 1. A flow that a block takes is one that the forward of the block before gives, in its type.
// 2. A cotangent has the type of its flow. A block takes those of what its forward gives, and the block behind it has
//    to give them; it gives those of what it takes.
// 3. So gradients come from the head without a gap to the first block that has any, and every trainable gets its own.
#include <string>
#include <vector>

#include "format/lookup.h"
#include "runtime/bundle/validate.h"

namespace mebp {

using format::Port;

namespace {

class FlowValidator {
public:
  explicit FlowValidator(const format::Bundle &bundle) : bundle(bundle) {}

  Status check(int index) const {
    for (const format::ProgramTraits &use : format::knownPrograms)
      if (int32_t number = programOf(bundle.blocks(index), use.name); number != format::noProgram)
        if (Status status = check(index, use, bundle.programs(number)); !status.ok())
          return status.in("its " + std::string(use.name) + " program");
    return Status();
  }

private:
  Status check(int index, const format::ProgramTraits &use, const format::Program &program) const {
    for (const Port &input : program.inputs()) {
      if (input.kind() != Port::FLOW)
        continue;
      bool back = isCotangent(input);
      if (back && format::addsCotangents(use.name)) {
        if (Status status = checkAdded(index, program, input); !status.ok())
          return status;
        continue;
      }
      if (back ? !use.is(format::GivesGradients) || !isGivenBack(index + 1, input) : index == 0)
        return wrong(input, "which no other block gives");
      if (Status status = checkType(use, program, input, back ? index : index - 1); !status.ok())
        return status;
    }
    bool flows = false;
    for (const Port &output : program.outputs()) {
      if (output.kind() != Port::FLOW)
        continue;
      bool back = isCotangent(output);
      flows |= !back;
      bool givesFlows = use.name == format::forwardProgram || use.name == format::decodeProgram;
      if (back ? !use.is(format::GivesGradients) || index == 0 : !givesFlows)
        return wrong(output, "which goes nowhere");
      if (Status status = checkType(use, program, output, back ? index - 1 : index); !status.ok())
        return status;
    }
    if (use.name == giverOf(use) && !flows)
      return failure(MEBP_CORRUPT, "it gives nothing to the next block");
    return Status();
  }

  // The block's backward has given the same cotangent, and the sum takes its place.
  Status checkAdded(int index, const format::Program &program, const Port &cotangent) const {
    if (index == 0 || !program.in_place() || !isGivenBack(index, cotangent) ||
        !findPort(program.outputs(), Port::FLOW, cotangent.name()))
      return wrong(cotangent, "which it cannot add to");
    return checkType(*format::findProgram(format::backwardProgram), program, cotangent, index - 1);
  }

  // Against the flow that the forward of this block gives, or what stands for it in generation.
  Status checkType(const format::ProgramTraits &use, const format::Program &program, const Port &port,
                   int giver) const {
    const format::Block &block = bundle.blocks(giver);
    int32_t number = programOf(block, giverOf(use));
    const format::Program *forward = number == format::noProgram ? nullptr : &bundle.programs(number);
    const Port *flow = forward ? findPort(forward->outputs(), Port::FLOW, format::flowOf(port.name())) : nullptr;
    if (!forward && bundle.has_split())
      return Status(); // the other half gives it
    if (!flow)
      return wrong(port, "which no other block gives");
    const format::Value &one = valueOf(program, port), &other = valueOf(*forward, *flow);
    bool fits = one.columns() == other.columns() && one.element() == other.element() &&
                one.row_extent().kind() == format::Extent::TOKENS &&
                one.column_extent().kind() == format::Extent::STATIC &&
                (!use.is(format::Generates) || use.is(format::OfHead) || one.rows() == other.rows());
    return fits ? Status() : wrong(port, "which is of another type there");
  }

  bool isGivenBack(int index, const Port &cotangent) const {
    int32_t number = index < bundle.blocks_size() ? gradientProgramOf(bundle.blocks(index)) : format::noProgram;
    if (number == format::noProgram && bundle.has_split())
      return index < bundle.blocks_size();
    return number != format::noProgram && findPort(bundle.programs(number).outputs(), Port::FLOW, cotangent.name());
  }

  static Status wrong(const Port &port, const char *why) {
    return failure(MEBP_CORRUPT, "it has the flow '%s', %s", port.name().c_str(), why);
  }

  const format::Bundle &bundle;
};

Status checkTrained(const format::Bundle &bundle) {
  std::vector<bool> trained(static_cast<size_t>(bundle.trainables_size()));
  for (const format::Block &block : bundle.blocks())
    for (int32_t number : gradientProgramsOf(block))
      for (const Port &output : bundle.programs(number).outputs())
        if (output.kind() == Port::GRADIENT)
          trained[findParameter(block, output.name())->trainable()] = true;
  for (int i = 0; i < bundle.trainables_size(); ++i)
    if (!trained[static_cast<size_t>(i)])
      return failure(MEBP_CORRUPT, "trainable '%s' gets no gradient", bundle.trainables(i).name().c_str());
  return Status();
}

} // namespace

Status validateFlows(const format::Bundle &bundle) {
  FlowValidator validator(bundle);
  bool gradients = false;
  for (int i = 0; i < bundle.blocks_size(); ++i) {
    const format::Block &block = bundle.blocks(i);
    if (Status status = validator.check(i); !status.ok())
      return status.in("block '" + block.name() + "'");
    bool has = gradientProgramOf(block) != format::noProgram;
    if (gradients && !has && !bundle.has_split())
      return failure(MEBP_CORRUPT, "block '%s' has no backward, but one before it has", block.name().c_str());
    gradients |= has;
  }
  return checkTrained(bundle);
}

} // namespace mebp
