// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/CostModel.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mebp {

namespace {

double elementsOf(Value value) { return static_cast<double>(cast<RankedTensorType>(value.getType()).getNumElements()); }
double rowsOf(Value value) { return static_cast<double>(cast<RankedTensorType>(value.getType()).getDimSize(0)); }
double columnsOf(Value value) { return static_cast<double>(cast<RankedTensorType>(value.getType()).getDimSize(1)); }

class Predictor {
public:
  Predictor(exec::ProgramOp program, int64_t sequence, const MachineRates &rates) : sequence(sequence), rates(rates) {
    for (BlockArgument argument : program.getBody().front().getArguments()) {
      auto type = cast<RankedTensorType>(argument.getType());
      auto extent = dyn_cast_or_null<exec::ExtentAttr>(type.getEncoding());
      if (extent && extent.getRows() == exec::ExtentAttr::tokens)
        tokens = type.getDimSize(0);
    }
  }

  double block(Block &block) const {
    double seconds = 0;
    for (Operation &op : block) {
      if (auto loop = dyn_cast<train::LoopOp>(op))
        seconds += trips(loop) * this->block(loop.getBody().front());
      else if (auto kernel = dyn_cast<exec::KernelOp>(op))
        seconds += rates.secondsPerCall + arithmetic(kernel) / rates.flops + unpacked(kernel) / rates.expansions +
                   touched(kernel) / rates.elements;
    }
    return seconds;
  }

private:
  /// With as many tokens as there is room for.
  double trips(train::LoopOp loop) const {
    int64_t items = 1, rows = sequence;
    switch (loop.getDomain()) {
    case train::Domain::WeightRows:
      rows = cast<RankedTensorType>(loop.getOver().getType()).getDimSize(0);
      break;
    case train::Domain::TokenRows:
      rows = tokens;
      break;
    default:
      items = tokens / sequence;
    }
    return static_cast<double>(items * llvm::divideCeil(rows, loop.getSize()));
  }

  /// Floating point operations of products.
  double arithmetic(exec::KernelOp kernel) const {
    StringRef name = kernel.getKernel();
    auto input = [&](unsigned index) { return kernel.getInputs()[index]; };
    if (name == "linear" || name == "linear_input_gradient")
      return 2 * rowsOf(input(0)) * elementsOf(input(1));
    if (name == "linear_weight_gradient")
      return 2 * rowsOf(input(0)) * elementsOf(kernel.getOutputs()[0]);
    if (name == "attention" || name == "attention_gradient") {
      // Each query meets half of the keys; the gradient takes seven products where the forward takes two.
      double products = name == "attention" ? 2 : 7;
      return products * rowsOf(input(0)) * static_cast<double>(sequence) * columnsOf(input(0));
    }
    return 0;
  }

  /// Weights that a product unpacks from their storage, once a call whatever its rows.
  double unpacked(exec::KernelOp kernel) const {
    StringRef name = kernel.getKernel();
    return name == "linear" || name == "linear_input_gradient" ? elementsOf(kernel.getInputs()[1]) : 0;
  }

  double touched(exec::KernelOp kernel) const {
    double sum = 0;
    for (Value result : kernel.getOutputs())
      sum += elementsOf(result);
    return sum;
  }

  int64_t sequence, tokens = 1;
  MachineRates rates;
};

} // namespace

double StepSeconds::total(uint64_t layers, uint64_t spacing) const {
  if (layers == 0)
    return layersForward + head;
  // All but the last segment, which is still there when the backward begins, and what is kept of the others.
  spacing = std::min(spacing, layers);
  uint64_t again = layers - spacing - (layers / spacing - 1);
  return layersForward * (1 + static_cast<double>(again) / static_cast<double>(layers)) + layersBackward + head;
}

double StepSeconds::totalSpilled(uint64_t fileBytes, const MachineRates &rates) const {
  return layersForward + layersBackward + head + 2 * static_cast<double>(fileBytes) / rates.fileBytes;
}

StepSeconds predictStep(ModuleOp module, int64_t sequence, int64_t threads, const MachineRates &rates) {
  llvm::StringMap<double> seconds;
  for (auto program : module.getOps<exec::ProgramOp>())
    seconds[program.getSymName()] =
        Predictor(program, sequence, rates).block(program.getBody().front()) / static_cast<double>(threads);
  auto of = [&](std::optional<StringRef> name) { return name ? seconds.lookup(*name) : 0.0; };
  StepSeconds step;
  for (auto block : module.getOps<train::BlockOp>()) {
    step.layersForward += of(block.getForward());
    step.layersBackward += of(block.getBackward());
    step.head += of(block.getObjective());
    step.loss += of(block.getLoss());
  }
  return step;
}

} // namespace mebp
