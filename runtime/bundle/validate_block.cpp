// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <unordered_set>

#include "format/lookup.h"
#include "format/optimizers.h"
#include "runtime/bundle/validate.h"

namespace mebp {

using format::Port;

namespace {

bool isStatic(const format::Value &value) {
  return value.row_extent().kind() == format::Extent::STATIC && value.column_extent().kind() == format::Extent::STATIC;
}
template <typename Matrix> bool isLike(const format::Value &value, const Matrix &matrix) {
  return isStatic(value) && value.rows() == matrix.rows() && value.columns() == matrix.columns();
}

// One block's use of one program.
class ProgramUse {
public:
  ProgramUse(const format::Bundle &bundle, const format::Block &block, const format::ProgramTraits &use, int32_t number)
      : bundle(bundle), block(block), use(use), program(bundle.programs(number)) {}

  Status check() const {
    for (const format::Value &value : program.values())
      if (value.row_extent().kind() == format::Extent::TOKENS && !isTokenCount(value.rows()))
        return failure(MEBP_CORRUPT, "it is for %llu tokens, but a step has up to %llu",
                       static_cast<unsigned long long>(value.rows()), static_cast<unsigned long long>(mostTokens()));
    for (const Port &input : program.inputs())
      if (Status status = checkInput(input); !status.ok())
        return status;
    for (const Port &output : program.outputs())
      if (Status status = checkOutput(output); !status.ok())
        return status;
    for (const format::StepPort &port : format::stepPorts)
      if (givesResult(use, port.name) && !findPort(program.outputs(), Port::RESULT, port.name))
        return failure(MEBP_CORRUPT, "it does not give its result '%s'", port.name.data());
    if (!findPort(program.outputs(), Port::RESULT, format::expertScoresPort) !=
        !findPort(program.outputs(), Port::RESULT, format::expertCountsPort))
      return failure(MEBP_CORRUPT, "it gives one of its experts' scores and counts, but not the other");
    return use.is(format::GivesGradients) && !isThin() ? checkGradients() : Status();
  }

private:
  static Status wrongShape(const Port &port) {
    return failure(MEBP_CORRUPT, "its port '%s' has the wrong shape", port.name().c_str());
  }
  static Status unknown(const Port &port) {
    return failure(MEBP_UNSUPPORTED, "nothing here supplies its port '%s'; use a newer runtime", port.name().c_str());
  }

  Status checkInput(const Port &port) const {
    if (port.kind() == Port::FLOW)
      return Status();
    if (port.kind() == Port::BATCH)
      return checkStepPort(port);
    if (port.kind() == Port::STATE && use.is(format::Generates))
      return checkState(port);
    if (port.kind() == Port::SHARED)
      return use.is(format::Generates) ? checkState(port) : checkShared(port, isThin());
    if (port.kind() == Port::REMOTE || (port.kind() == Port::KEPT && use.name == format::backwardProgram))
      return checkRemote(port);
    if (port.kind() != Port::PARAMETER)
      return unknown(port);
    if (!format::thinSuffixOf(port.name()).empty())
      return checkThin(port, use.name == format::rangeProgram    ? format::sketchSuffix
                             : use.name == format::sketchProgram ? format::rangeSuffix
                                                                 : format::projectorSuffix);
    const format::Parameter *parameter = findParameter(block, port.name());
    if (!parameter)
      return failure(MEBP_CORRUPT, "it takes a parameter '%s' that the block does not bind", port.name().c_str());
    return parameterFits(*parameter, valueOf(port)) ? Status() : wrongShape(port);
  }

  Status checkOutput(const Port &port) const {
    if (port.kind() == Port::FLOW)
      return Status();
    if (port.kind() == Port::REMOTE || (port.kind() == Port::KEPT && use.name == format::forwardProgram))
      return checkRemote(port);
    if (port.kind() == Port::SHARED && !use.is(format::Generates))
      return checkShared(port, false);
    if (port.kind() == Port::RESULT)
      return mayGiveResult(use, port.name()) ? checkStepPort(port) : unknown(port);
    if (port.kind() != Port::GRADIENT)
      return unknown(port);
    if (isThin())
      return checkThin(port, use.name == format::rangeProgram ? format::rangeSuffix : format::sketchSuffix);
    const format::Parameter *parameter = findParameter(block, port.name());
    if (!use.is(format::GivesGradients) || !parameter || !parameter->has_trainable())
      return failure(MEBP_CORRUPT, "it gives a gradient '%s' of nothing that is trained", port.name().c_str());
    return isF32(valueOf(port), trainedShape(*parameter).gradient()) ? Status() : wrongShape(port);
  }

  // Whether it multiplies gradients to find projectors.
  bool isThin() const { return use.name == format::rangeProgram || use.name == format::sketchProgram; }

  // What a gradient is multiplied with, or its product.
  Status checkThin(const Port &port, std::string_view suffix) const {
    const format::Parameter *parameter = findParameter(block, format::parameterOf(port.name()));
    const format::TrainedShape shape =
        parameter && parameter->has_trainable() ? trainedShape(*parameter) : format::TrainedShape();
    if (format::thinSuffixOf(port.name()) != suffix || !use.is(format::GivesGradients) || use.is(format::OfHead) ||
        shape.rank == 0)
      return failure(MEBP_CORRUPT, "its port '%s' is of no gradient that is projected there", port.name().c_str());
    const uint64_t width = sketchRank(shape);
    const format::ThinShape fits =
        suffix == format::projectorSuffix ? format::factorShape(shape.rows, shape.columns, shape.rank)
        : suffix == format::sketchSuffix  ? format::factorShape(shape.rows, shape.columns, width)
                                          : format::projectedShape(shape.rows, shape.columns, width);
    const bool isCoded = suffix == format::projectorSuffix &&
                         bundle.trainables(static_cast<int>(parameter->trainable())).projector() == format::INT4;
    return is(isCoded ? format::INT4 : format::F32, valueOf(port), fits) ? Status() : wrongShape(port);
  }

  // A gradient that is projected has a projector, and the two programs that this is found by.
  Status checkProjected(const Port &gradient) const {
    auto has = [&](const format::Program &taking, std::string_view suffix) {
      return findPort(taking.inputs(), Port::PARAMETER, format::nameThin(gradient.name(), suffix)) != nullptr;
    };
    const int32_t range = programOf(block, format::rangeProgram), sketch = programOf(block, format::sketchProgram);
    const bool isWhole = has(program, format::projectorSuffix) && range != format::noProgram &&
                         sketch != format::noProgram && has(bundle.programs(range), format::sketchSuffix) &&
                         has(bundle.programs(sketch), format::rangeSuffix);
    return isWhole ? Status()
                   : failure(MEBP_CORRUPT, "nothing projects its gradient '%s', as the bundle says that it is",
                             gradient.name().c_str());
  }

  format::TrainedShape trainedShape(const format::Parameter &parameter) const {
    const format::Trainable &trainable = bundle.trainables(static_cast<int>(parameter.trainable()));
    return {trainable.rows(), trainable.columns(), trainable.rank()};
  }
  static bool isF32(const format::Value &value, const format::ThinShape &shape) {
    return is(format::F32, value, shape);
  }
  static bool is(format::ElementType element, const format::Value &value, const format::ThinShape &shape) {
    return value.element() == element && isStatic(value) && value.rows() == shape.rows &&
           value.columns() == shape.columns;
  }

  Status checkStepPort(const Port &port) const {
    const format::StepPort *known = format::findStepPort(port.name());
    if (!known || known->isResult != (port.kind() == Port::RESULT))
      return unknown(port);
    const bool isOfWhole = port.name() == format::startsPort || port.name() == format::endsPort ||
                           port.name() == format::countedPort || known->ofExperts;
    if (isOfWhole &&
        (use.is(format::Generates) || use.is(format::OfHead) || bundle.has_split())) // of a step on a whole model alone
      return unknown(port);
    const format::Value &value = valueOf(port);
    if (format::storageOf(value.element()) != known->element)
      return wrongShape(port);
    if (known->ofExperts)
      return !use.is(format::OfHead) && isStatic(value) && value.rows() == 1 &&
                     value.columns() == stepShapeOf(bundle).experts
                 ? Status()
                 : wrongShape(port);
    uint64_t columns = known->ofVocabulary ? outputsOf(bundle.model()) : 1;
    bool fits = value.row_extent().kind() == format::Extent::TOKENS && value.columns() == columns &&
                value.column_extent().kind() == format::Extent::STATIC;
    return fits ? Status() : wrongShape(port);
  }

  // Rows of tokens. Whether another program of the block has the same, validate_remote.cpp says.
  Status checkRemote(const Port &port) const {
    const format::Value &value = valueOf(port);
    const bool isOfTokens =
        value.row_extent().kind() == format::Extent::TOKENS && value.column_extent().kind() == format::Extent::STATIC;
    const bool isActivation = value.element() == format::F32 || value.element() == format::BF16;
    return !use.is(format::OfHead) && isOfTokens && isActivation ? Status() : wrongShape(port);
  }

  // Of the forward and the backward, or of what else of a whole model multiplies gradients. What other blocks have of
  // it, validate_shared.cpp says.
  Status checkShared(const Port &port, bool isAllowed) const {
    isAllowed |= use.name == format::forwardProgram || use.name == format::backwardProgram;
    if (!isAllowed || bundle.has_split())
      return unknown(port);
    if (format::isCotangent(port.name()) && (!use.is(format::GivesGradients) || valueOf(port).element() != format::F32))
      return wrongShape(port);
    return checkRemote(port);
  }

  // Rows for each batch item; which of them, the kernels that use them say.
  Status checkState(const Port &port) const {
    const format::Value &value = valueOf(port);
    return isStatic(value) && value.rows() % bundle.model().batch() == 0 ? Status() : wrongShape(port);
  }

  // A parameter that is read is updated only after its gradient; one without a gradient could be read after it.
  Status checkGradients() const {
    for (const Port &output : program.outputs())
      if (output.kind() == Port::GRADIENT && trainedShape(*findParameter(block, output.name())).rank > 0)
        if (Status status = checkProjected(output); !status.ok())
          return status;
    for (const Port &input : program.inputs())
      if (input.kind() == Port::PARAMETER && format::thinSuffixOf(input.name()).empty() &&
          findParameter(block, input.name())->has_trainable() &&
          !findPort(program.outputs(), Port::GRADIENT, input.name()))
        return failure(MEBP_CORRUPT, "it reads a trainable without giving its gradient");
    return Status();
  }

  uint64_t mostTokens() const { return format::mostTokens(bundle.model()); }
  // All values by tokens of a program have one number of rows; a step runs it on as many as the model has. Logits and
  // generation may be planned for fewer, since they run on rows in turn; but for one of each batch item at least, and
  // in blocks before the head for two.
  bool isTokenCount(uint64_t rows) const {
    if (use.is(format::Generates))
      return rows <= mostTokens() && rows >= bundle.model().batch() * (use.is(format::OfHead) ? 1u : 2u);
    return rows == mostTokens() || (use.name == format::logitsProgram && rows < mostTokens());
  }

  bool parameterFits(const format::Parameter &parameter, const format::Value &value) const {
    if (parameter.has_trainable()) {
      const format::Trainable &trainable = bundle.trainables(static_cast<int>(parameter.trainable()));
      return format::storageOf(value.element()) == storageOf(trainable) && isLike(value, trainable);
    }
    const format::Weight &weight = bundle.weights(static_cast<int>(parameter.weight()));
    return value.element() == weight.element() && isLike(value, weight);
  }

  const format::Value &valueOf(const Port &port) const { return format::valueOf(program, port); }

  const format::Bundle &bundle;
  const format::Block &block;
  const format::ProgramTraits &use;
  const format::Program &program;
};

Status checkParameters(const format::Bundle &bundle, const format::Block &block) {
  std::unordered_set<std::string_view> names;
  for (const format::Parameter &parameter : block.parameters()) {
    bool known = parameter.has_weight() ? parameter.weight() < static_cast<uint32_t>(bundle.weights_size())
                                        : parameter.has_trainable() &&
                                              parameter.trainable() < static_cast<uint32_t>(bundle.trainables_size());
    if (!known)
      return failure(MEBP_CORRUPT, "a parameter is neither a weight nor a trainable of this bundle");
    if (!names.insert(parameter.name()).second)
      return failure(MEBP_CORRUPT, "it binds two parameters '%s'", parameter.name().c_str());
  }
  return Status();
}

} // namespace

Status validateBlock(const format::Bundle &bundle, int index) {
  const format::Block &block = bundle.blocks(index);
  const bool isHead = index + 1 == bundle.blocks_size();
  if (Status status = checkParameters(bundle, block); !status.ok())
    return status;
  std::unordered_set<std::string_view> names;
  for (const format::BlockProgram &program : block.programs()) {
    if (!names.insert(program.name()).second)
      return failure(MEBP_CORRUPT, "it has two programs '%s'", program.name().c_str());
    if (program.program() >= static_cast<uint32_t>(bundle.programs_size()))
      return failure(MEBP_CORRUPT, "its %s program %u does not exist", program.name().c_str(), program.program());
  }
  for (const format::ProgramTraits &use : format::knownPrograms) {
    int32_t number = programOf(block, use.name);
    if (number == format::noProgram) {
      bool isRequired =
          use.is(format::Required) || (use.name == format::generatingProgramOf(isHead) && bundle.model().positions());
      if (isRequired && use.is(format::OfHead) == isHead && !bundle.has_split())
        return failure(MEBP_CORRUPT, "it has no %s program", use.name.data());
      continue;
    }
    if (use.is(format::OfHead) != isHead)
      return failure(MEBP_CORRUPT, "where it stands, it cannot have the program '%s'", use.name.data());
    if (Status status = ProgramUse(bundle, block, use, number).check(); !status.ok())
      return status.in("its " + std::string(use.name) + " program");
  }
  return validateRemote(block, bundle);
}

} // namespace mebp
