// SPDX-License-Identifier: Apache-2.0
//
// What a bundle's parts say about each other: weights against weights.bin, blocks against their programs.
#include <string>
#include <unordered_set>
#include <vector>

#include "format/alignment.h"
#include "format/storage.h"
#include "runtime/bundle/programs.h"
#include "runtime/bundle/validate.h"

namespace mebp {

using format::Input;
using format::Output;

static bool inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset % format::alignment == 0 && offset <= size && bytes <= size - offset;
}

static Status validateWeight(const format::Weight &weight, uint64_t size) {
  const format::Storage storage = format::storageOf(weight.element());
  if (!isWeight(storage))
    return failure(MEBP_UNSUPPORTED, "it has a storage that this runtime does not know; use a newer one");
  if (weight.rows() == 0 || weight.columns() == 0 || weight.rows() > maximumExtent || weight.columns() > maximumExtent)
    return failure(MEBP_CORRUPT, "it has an impossible size");
  if (weight.rank() > 2 || weight.rank() < 1 || (weight.rank() == 1 && weight.rows() != 1))
    return failure(MEBP_CORRUPT, "its rank does not fit its shape");
  bool quantised = isQuantised(storage);
  if (weight.group() != (quantised ? format::groupSize : 0))
    return failure(MEBP_CORRUPT, "its groups are not of %u", static_cast<uint32_t>(format::groupSize));
  const auto [dataBytes, groupBytes] = format::storedSize(weight);
  if (!inside(weight.data_offset(), dataBytes, size))
    return failure(MEBP_CORRUPT, "it does not lie in weights.bin");
  if (quantised &&
      (!inside(weight.scales_offset(), groupBytes, size) || !inside(weight.minima_offset(), groupBytes, size)))
    return failure(MEBP_CORRUPT, "its scales do not lie in weights.bin");
  return Status();
}

static Status validateModel(const format::Model &model) {
  for (uint32_t extent : {model.vocabulary(), model.hidden(), model.batch(), model.sequence()})
    if (extent == 0 || extent > maximumExtent)
      return failure(MEBP_CORRUPT, "the model has an impossible size");
  if (static_cast<uint64_t>(model.batch()) * model.sequence() > maximumExtent)
    return failure(MEBP_CORRUPT, "batch * sequence is too large");
  if (!isFloat(format::storageOf(model.activation())))
    return failure(MEBP_UNSUPPORTED, "its activations are neither in f32 nor in bf16; use a newer runtime");
  return Status();
}

static Status validateNames(const format::Bundle &bundle) {
  std::unordered_set<std::string> names;
  for (const format::Trainable &trainable : bundle.trainables()) {
    if (trainable.name().empty() || !names.insert(trainable.name()).second)
      return failure(MEBP_CORRUPT, "trainable '%s' appears twice", trainable.name().c_str());
    if (trainable.rows() == 0 || trainable.columns() == 0 || trainable.rows() > maximumExtent ||
        trainable.columns() > maximumExtent)
      return failure(MEBP_CORRUPT, "trainable '%s' has an impossible size", trainable.name().c_str());
  }
  return Status();
}

namespace {

// One block's use of one program.
class BlockValidator {
public:
  BlockValidator(const format::Bundle &bundle, const format::Block &block) : bundle(bundle), block(block) {}

  Status parameters() const {
    for (const format::Parameter &parameter : block.parameters()) {
      bool known = parameter.kind_case() == format::Parameter::kWeight
                       ? parameter.weight() < static_cast<uint32_t>(bundle.weights_size())
                       : parameter.kind_case() == format::Parameter::kTrainable &&
                             parameter.trainable() < static_cast<uint32_t>(bundle.trainables_size());
      if (!known)
        return failure(MEBP_CORRUPT, "a parameter is neither a weight nor a trainable of this bundle");
    }
    return Status();
  }

  Status program(ProgramUse use, int32_t number) const {
    if (number == noProgram)
      return isRequired(use, block) ? failure(MEBP_CORRUPT, "it has no %s program", nameOf(use)) : Status();
    if (!isPossible(use, block))
      return failure(MEBP_CORRUPT, "it cannot have a %s program", nameOf(use));
    if (number < 0 || number >= bundle.programs_size())
      return failure(MEBP_CORRUPT, "its %s program %d does not exist", nameOf(use), number);
    const format::Program &program = bundle.programs(number);
    if (Status status = checkTokens(use, program); !status.ok())
      return status;
    if (Status status = checkRoles(use, program); !status.ok())
      return status;
    bool activation = false, result = false;
    for (const Input &input : program.inputs()) {
      if (!takes(use, block, input.role()))
        return failure(MEBP_CORRUPT, "its %s program takes an input that such a program cannot have", nameOf(use));
      if (!inputFits(use, input, program.values(static_cast<int>(input.value()))))
        return failure(MEBP_CORRUPT, "input %u of its %s program has the wrong shape", input.value(), nameOf(use));
      activation |= input.role() == Input::ACTIVATION;
    }
    for (const Output &output : program.outputs()) {
      if (!gives(use, output.role()))
        return failure(MEBP_CORRUPT, "its %s program gives an output that such a program cannot have", nameOf(use));
      if (!outputFits(use, output, program.values(static_cast<int>(output.value()))))
        return failure(MEBP_CORRUPT, "output %u of its %s program has the wrong shape", output.value(), nameOf(use));
      result |= output.role() == mainOutput(use);
    }
    if (use == ProgramUse::Logits && !activation)
      return failure(MEBP_CORRUPT, "its logits program does not take the checkpoint");
    if (!result && use != ProgramUse::Backward)
      return failure(MEBP_CORRUPT, "its %s program does not give its result", nameOf(use));
    return checkGradients(use, program);
  }

private:
  // All values by tokens of a program have one number of rows; a step runs it on as many as the model has.
  Status checkTokens(ProgramUse use, const format::Program &program) const {
    for (const format::Value &value : program.values())
      if (value.row_extent().kind() == format::Extent::TOKENS && !isTokenCount(use, value.rows()))
        return failure(MEBP_CORRUPT, "its %s program is for %llu tokens, but a step has up to %llu", nameOf(use),
                       static_cast<unsigned long long>(value.rows()), static_cast<unsigned long long>(mostTokens()));
    return Status();
  }

  // One place is bound to each role; parameters and their gradients have a place each.
  Status checkRoles(ProgramUse use, const format::Program &program) const {
    std::unordered_set<int> taken, given;
    for (const Input &input : program.inputs())
      if (input.role() != Input::PARAMETER && !taken.insert(input.role()).second)
        return failure(MEBP_CORRUPT, "its %s program takes an input twice", nameOf(use));
    for (const Output &output : program.outputs())
      if (output.role() != Output::GRADIENT && !given.insert(output.role()).second)
        return failure(MEBP_CORRUPT, "its %s program gives an output twice", nameOf(use));
    return Status();
  }

  // A parameter that is read is updated only after its gradient; one without a gradient could be read after it.
  Status checkGradients(ProgramUse use, const format::Program &program) const {
    if (use != ProgramUse::Backward && use != ProgramUse::Objective)
      return Status();
    std::unordered_set<uint32_t> given;
    for (const Output &output : program.outputs())
      if (output.role() == Output::GRADIENT && !given.insert(output.parameter()).second)
        return failure(MEBP_CORRUPT, "its %s program gives a gradient twice", nameOf(use));
    for (const Input &input : program.inputs())
      if (input.role() == Input::PARAMETER && isTrainable(input.parameter()) && !given.count(input.parameter()))
        return failure(MEBP_CORRUPT, "its %s program reads a trainable without giving its gradient", nameOf(use));
    return Status();
  }

  bool isTrainable(uint32_t parameter) const {
    return block.parameters(static_cast<int>(parameter)).kind_case() == format::Parameter::kTrainable;
  }

  static bool isMatrix(const format::Value &value, uint64_t rows, uint64_t columns) {
    return value.rows() == rows && value.columns() == columns && value.row_extent().kind() == format::Extent::STATIC &&
           value.column_extent().kind() == format::Extent::STATIC;
  }

  uint64_t mostTokens() const { return static_cast<uint64_t>(bundle.model().batch()) * bundle.model().sequence(); }
  // A logits program may be planned for fewer, since it runs on rows in turn.
  bool isTokenCount(ProgramUse use, uint64_t rows) const {
    return rows == mostTokens() || (use == ProgramUse::Logits && rows < mostTokens());
  }

  bool isTokens(ProgramUse use, const format::Value &value, uint64_t columns) const {
    return isTokenCount(use, value.rows()) && value.columns() == columns &&
           value.row_extent().kind() == format::Extent::TOKENS &&
           value.column_extent().kind() == format::Extent::STATIC;
  }

  bool parameterFits(uint32_t number, const format::Value &value) const {
    if (number >= static_cast<uint32_t>(block.parameters_size()))
      return false;
    const format::Parameter &parameter = block.parameters(static_cast<int>(number));
    if (parameter.kind_case() == format::Parameter::kTrainable) {
      const format::Trainable &trainable = bundle.trainables(static_cast<int>(parameter.trainable()));
      return value.element() == format::F32 && isMatrix(value, trainable.rows(), trainable.columns());
    }
    const format::Weight &weight = bundle.weights(static_cast<int>(parameter.weight()));
    return value.element() == weight.element() && isMatrix(value, weight.rows(), weight.columns());
  }

  bool inputFits(ProgramUse use, const Input &input, const format::Value &value) const {
    switch (input.role()) {
    case Input::ACTIVATION:
    case Input::COTANGENT:
      return isTokens(use, value, bundle.model().hidden());
    case Input::TOKEN_IDS:
    case Input::LABELS:
      return isTokens(use, value, 1);
    case Input::OBJECTIVE_SCALE:
      return isMatrix(value, 1, 1);
    default:
      return parameterFits(input.parameter(), value);
    }
  }

  bool outputFits(ProgramUse use, const Output &output, const format::Value &value) const {
    switch (output.role()) {
    case Output::ACTIVATION:
    case Output::COTANGENT:
      return isTokens(use, value, bundle.model().hidden());
    case Output::LOSS:
      return isMatrix(value, 1, 1);
    case Output::LOGITS:
      return isTokens(use, value, bundle.model().vocabulary());
    default:
      return parameterFits(output.parameter(), value) && isTrainable(output.parameter());
    }
  }

  const format::Bundle &bundle;
  const format::Block &block;
};

} // namespace

// Where gradients must flow to: every block with a backward needs the cotangent that the block after it gives.
static Status validateFlow(const format::Bundle &bundle) {
  std::vector<bool> trained(static_cast<size_t>(bundle.trainables_size()));
  bool needed = false;
  for (const format::Block &block : bundle.blocks()) {
    int32_t number = programOf(block, gradientUse(block));
    if (number == noProgram) {
      if (needed)
        return failure(MEBP_CORRUPT, "block '%s' has no backward, but one before it has", block.name().c_str());
      continue;
    }
    bool cotangent = false;
    for (const Output &output : bundle.programs(number).outputs()) {
      cotangent |= output.role() == Output::COTANGENT;
      if (output.role() == Output::GRADIENT)
        trained[block.parameters(static_cast<int>(output.parameter())).trainable()] = true;
    }
    if (needed && !cotangent)
      return failure(MEBP_CORRUPT, "block '%s' gives no cotangent, but one before it needs it", block.name().c_str());
    needed = true;
  }
  for (int i = 0; i < bundle.trainables_size(); ++i)
    if (!trained[static_cast<size_t>(i)])
      return failure(MEBP_CORRUPT, "trainable '%s' gets no gradient", bundle.trainables(i).name().c_str());
  return Status();
}

Status validateBundle(const format::Bundle &bundle) {
  if (Status status = validateModel(bundle.model()); !status.ok())
    return status;
  for (const format::Weight &weight : bundle.weights())
    if (Status status = validateWeight(weight, bundle.weights_bytes()); !status.ok())
      return status.in("weight '" + weight.name() + "'");
  if (Status status = validateNames(bundle); !status.ok())
    return status;
  for (const format::Program &program : bundle.programs())
    if (Status status = validateProgram(program, bundle.model()); !status.ok())
      return status;
  if (bundle.blocks_size() < 2)
    return failure(MEBP_CORRUPT, "it has no blocks");
  for (int i = 0; i < bundle.blocks_size(); ++i) {
    const format::Block &block = bundle.blocks(i);
    bool last = i + 1 == bundle.blocks_size();
    if ((block.kind() == format::Block::HEAD) != last || (block.kind() == format::Block::EMBED) != (i == 0) ||
        (block.kind() != format::Block::LAYER && i != 0 && !last))
      return failure(MEBP_CORRUPT, "block '%s' is not where its kind belongs: embed, layers, head",
                     block.name().c_str());
    BlockValidator validator(bundle, block);
    if (Status status = validator.parameters(); !status.ok())
      return status.in("block '" + block.name() + "'");
    for (ProgramUse use : allProgramUses)
      if (Status status = validator.program(use, programOf(block, use)); !status.ok())
        return status.in("block '" + block.name() + "'");
  }
  return validateFlow(bundle);
}

} // namespace mebp
