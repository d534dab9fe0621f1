// SPDX-License-Identifier: Apache-2.0
//
// Terms: format/rates.h has the terms that a call's time is made of and counts them in one call; here they are counted
// in a step. Of a loop's last trip, which may be shorter, that is: its calls and the weights that it reads are those of
// any other, its products and activations are as many as it has rows.
#include "compiler/plan/CostModel.h"

#include "compiler/Options.h"
#include "compiler/plan/StoredWeights.h"
#include "dialects/nn/Parameters.h"
#include "format/optimizers.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mebp {

namespace {

/// How often a loop runs its body: `calls` whole numbers of times, for `rows` times as many rows as a whole trip has.
struct Trips {
  double calls = 1, rows = 1, weightRows = 1;

  Trips operator*(const Trips &other) const {
    return {calls * other.calls, rows * other.rows, weightRows * other.weightRows};
  }
};

class Predictor {
public:
  Predictor(exec::ProgramOp program, train::BlockOp block, int64_t sequence, bool narrow, const Machine &machine)
      : program(program), block(block), sequence(sequence), narrow(narrow), machine(machine) {
    for (BlockArgument argument : program.getBody().front().getArguments()) {
      if (exec::getExtents(argument).rows == exec::Extent::Tokens)
        tokens = cast<RankedTensorType>(argument.getType()).getDimSize(0);
    }
  }

  double predict() { return predict(program.getBody().front(), Trips()); }
  double predict(exec::KernelOp kernel) { return predict(kernel, Trips()); }

private:
  double predict(Block &body, const Trips &trips) {
    double seconds = 0;
    for (Operation &op : body) {
      if (auto loop = dyn_cast<train::LoopOp>(op))
        seconds += predict(loop.getBody().front(), trips * getTrips(loop));
      else if (auto kernel = dyn_cast<exec::KernelOp>(op))
        seconds += predict(kernel, trips);
    }
    return seconds;
  }

  double predict(exec::KernelOp kernel, const Trips &trips) {
    auto getExtents = [](Value value) {
      if (!value)
        return format::Extents();
      auto type = cast<RankedTensorType>(value.getType());
      return format::Extents{static_cast<double>(type.getDimSize(0)), static_cast<double>(type.getDimSize(1))};
    };
    SmallVector<format::Extents> operands, results;
    llvm::append_range(operands, llvm::map_range(kernel.getSlotOperands(), getExtents));
    llvm::append_range(results, llvm::map_range(kernel.getOutputs(), getExtents));
    const format::KernelSignature &signature = kernel.getSignature();
    format::CountedCall call = {signature,      operands.data(), operands.size(),
                                results.data(), results.size(),  countVisibleKeys(kernel)};
    auto [calls, products, weights, elements] = format::countAmounts(call);
    // A tile of the vocabulary has fewer rows of the weight in its last trip, any other loop fewer of the activations.
    format::Amounts amounts = {calls * trips.calls, products * trips.rows, weights * trips.weightRows,
                               elements * trips.rows};
    return machine.rates.seconds(format::rateName(signature.name, getStorage(kernel), getKind(kernel, call)), amounts,
                                 machine.threads);
  }

  /// With as many tokens as there is room for.
  Trips getTrips(train::LoopOp loop) {
    int64_t items = 1, rows = sequence;
    bool overWeight = loop.getDomain() == train::Domain::WeightRows;
    if (overWeight)
      rows = cast<RankedTensorType>(loop.getOver().getType()).getDimSize(0);
    else if (loop.getDomain() == train::Domain::TokenRows)
      rows = tokens;
    else
      items = tokens / sequence;
    auto calls = static_cast<double>(items * llvm::divideCeil(rows, loop.getSize()));
    double whole = static_cast<double>(items * rows) / static_cast<double>(loop.getSize());
    return {calls, whole, overWeight ? whole : calls};
  }

  /// A query sees the keys before it, or all of them, as many as there is room for in a window.
  double countVisibleKeys(exec::KernelOp kernel) {
    auto window = kernel.getKernelAttributes().getAs<IntegerAttr>("window");
    auto length = static_cast<double>(sequence), most = length;
    if (window && window.getInt() > 0)
      most = std::min(most, static_cast<double>(window.getInt()));
    if (!format::findSignature({kernel.getKernel().data(), kernel.getKernel().size()})->causal)
      return std::min(length, 2 * most);
    return most - most * most / (2 * length);
  }

  /// How its activations are stored, or what a kernel may take them for.
  StringRef getStorage(exec::KernelOp kernel) {
    if (narrow || kernel.getKernelAttributes().contains("narrow"))
      return "bf16";
    for (Value value : llvm::concat<Value>(kernel.getInputs(), kernel.getOutputs()))
      if (Type type = cast<RankedTensorType>(value.getType()).getElementType(); isa<FloatType>(type))
        return type.isBF16() ? "bf16" : "f32";
    return "f32";
  }

  std::string getKind(exec::KernelOp kernel, const format::CountedCall &call) {
    if (auto activation = kernel.getKernelAttributes().getAs<StringAttr>("activation"))
      return activation.str();
    if (!llvm::is_contained({format::Cost::Product, format::Cost::ExpertProduct}, call.signature.cost))
      return "";
    nn::ParameterOp parameter = findParameter(program, block, kernel.getInputs()[1]);
    if (parameter && parameter.getInitialBound())
      return call.operands[0].columns > call.results[0].columns ? "lora_down" : "lora_up";
    format::Storage storage = parameter ? mebp::getStorage(parameter) : format::Storage::F32;
    // Blocks are expanded about as bytes are.
    std::string weights = format::nameOf(isInBlocks(storage) ? format::Storage::Int8 : storage);
    return call.low().rows > 0 ? weights + " low" : weights;
  }

  exec::ProgramOp program;
  train::BlockOp block; // one that runs the program
  int64_t sequence, tokens = 1;
  bool narrow; // whatever the types say
  const Machine &machine;
};

} // namespace

double StepSeconds::total(const layout::Choice &choice, uint64_t layers, uint64_t trained, uint64_t fileBytes,
                          const MachineRates &rates) const {
  if (choice.forwardOnly)
    return 2 * (layersForward + loss) + update;
  double again = 0, file = 0;
  if (choice.spillsCheckpoints) {
    file = rates.seconds(format::spillRate, {0, 0, 0, static_cast<double>(fileBytes)}, 1);
  } else if (trained > 0) {
    // All but the last segment, which is still there when the backward begins, and what is kept of the others.
    const uint64_t segment = std::min<uint64_t>(choice.spacing, trained);
    again = static_cast<double>(trained - segment - (trained / segment - 1)) / static_cast<double>(layers);
  }
  return layersForward * (1 + again) + layersBackward + head + update + file;
}

std::vector<double> predictCalls(exec::ProgramOp program, train::BlockOp block, int64_t sequence, bool narrow,
                                 const Machine &machine) {
  Predictor predictor(program, block, sequence, narrow, machine);
  std::vector<double> seconds;
  for (auto kernel : program.getBody().front().getOps<exec::KernelOp>())
    seconds.push_back(predictor.predict(kernel));
  return seconds;
}

StepSeconds predictStep(ModuleOp module, int64_t sequence, StringRef optimizer, const Machine &machine) {
  llvm::StringMap<double> seconds;
  auto of = [&](std::string_view program, train::BlockOp block) {
    FlatSymbolRefAttr name = block.getProgram(program);
    if (!name)
      return 0.0;
    auto [entry, isNew] = seconds.try_emplace(name.getValue());
    if (isNew)
      entry->second = Predictor(module.lookupSymbol<exec::ProgramOp>(name), block, sequence, false, machine).predict();
    return entry->second;
  };
  StepSeconds step;
  for (auto block : module.getOps<train::BlockOp>()) {
    double backward = 0;
    for (const format::ProgramTraits &program : format::forwardPrograms) {
      step.layersForward += of(program.name, block);
      backward += of(program.backward, block);
    }
    step.layersBackward += backward;
    if (block.getKind() == train::BlockKind::Layer)
      step.backwardByLayer.push_back(backward);
    step.head += of(format::objectiveProgram, block);
    step.loss += of(format::logProbabilitiesProgram, block);
  }
  const bool isSpread = !isForwardOnly(optimizer);
  double small = 0, large = 0;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    if (parameter.getTrainable()) {
      const int64_t elements = parameter.getTensorType().getNumElements();
      (isSpread && elements > static_cast<int64_t>(format::updateShare) ? large : small) += elements;
    }
  step.update = machine.rates.seconds(optimizer, {0, 0, 0, small}, machine.threads) +
                machine.rates.seconds(format::rateOfLarge(optimizer), {0, 0, 0, large}, machine.threads);
  return step;
}

} // namespace mebp
