// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle/weight_reads.h"

#include <algorithm>
#include <vector>

#include "format/kernels.h"
#include "format/lookup.h"
#include "format/residency.h"
#include "format/storage.h"

namespace mebp {

namespace {

// Null for what comes with a parameter, as its projector.
const format::Parameter *weightOf(const format::Block &block, const format::Port &input) {
  const format::Parameter *parameter =
      input.kind() == format::Port::PARAMETER ? findParameter(block, input.name()) : nullptr;
  return parameter && parameter->has_weight() ? parameter : nullptr;
}

class Reader {
public:
  Reader(const format::Program &program, const format::Block &block) : program(program) {
    mapped.resize(static_cast<size_t>(program.values_size()));
    for (const format::Port &input : program.inputs())
      mapped[input.value()] = weightOf(block, input) != nullptr;
  }

  void visit(const format::Repeated<format::Step> &steps) {
    for (const format::Step &step : steps) {
      if (step.has_kernel())
        visit(step.kernel());
      else if (step.has_loop())
        visit(step.loop().steps());
      else if (step.has_slice())
        mapped[step.slice().result()] = mapped[step.slice().source()];
    }
  }

  WeightReads largest;

private:
  const format::Value &valueOf(int32_t index) const { return program.values(index); }

  // `rows` of a weight's, each somewhere, or all of it in one piece.
  static uint64_t windowsOf(const format::Value &weight, bool gathered, uint64_t rows) {
    auto windows = [&](uint64_t rowBytes) {
      uint64_t whole = format::windowsOf(weight.rows() * rowBytes);
      return gathered ? std::min(whole, rows * format::windowsOf(rowBytes)) : whole;
    };
    const format::Storage storage = format::storageOf(weight.element());
    uint64_t total = windows(format::rowBytesOf(storage, weight.columns()));
    uint64_t groups = format::groupsOf(storage, weight.columns());
    return groups ? total + 2 * windows(groups * sizeof(uint16_t)) : total;
  }

  void visit(const format::Kernel &kernel) {
    const format::KernelSignature &signature = *format::findSignature(kernel.name());
    int table = format::tableOf(signature);
    uint64_t windows = 0;
    for (int32_t i = 0; i < kernel.operands_size(); ++i) {
      int32_t operand = kernel.operands(i);
      if (operand < 0 || !mapped[static_cast<size_t>(operand)])
        continue;
      uint64_t rows = valueOf(kernel.operands(0)).rows();
      if (signature.gathers)
        rows = std::min<uint64_t>(rows, format::gatheredRows);
      windows += windowsOf(valueOf(operand), i == table, rows);
    }
    if (windows > largest.windows)
      largest = {windows, kernel.name()};
  }

  const format::Program &program;
  std::vector<bool> mapped; // values that lie in the weights
};

} // namespace

// Calls visit(kernel) for each kernel call of the steps.
template <typename Visit> static void forEachKernel(const format::Repeated<format::Step> &steps, const Visit &visit) {
  for (const format::Step &step : steps) {
    if (step.has_kernel())
      visit(step.kernel());
    else if (step.has_loop())
      forEachKernel(step.loop().steps(), visit);
  }
}

std::vector<bool> findExpertWeights(const format::Bundle &bundle, const format::Block &block) {
  std::vector<bool> found(static_cast<size_t>(bundle.weights_size()));
  for (const format::ProgramTraits &use : format::knownPrograms) {
    const int32_t number = programOf(block, use.name);
    if (number == format::noProgram)
      continue;
    const format::Program &program = bundle.programs(number);
    forEachKernel(program.steps(), [&](const format::Kernel &kernel) {
      const format::KernelSignature &signature = *format::findSignature(kernel.name());
      if (signature.cost != format::Cost::ExpertProduct)
        return;
      const int32_t weight = kernel.operands(format::findOperand(signature, "w"));
      for (const format::Port &input : program.inputs())
        if (static_cast<int32_t>(input.value()) == weight)
          if (const format::Parameter *parameter = weightOf(block, input))
            found[parameter->weight()] = true;
    });
  }
  return found;
}

WeightReads largestWeightReads(const format::Bundle &bundle, const format::Block &block, int32_t number) {
  if (number == format::noProgram)
    return {};
  const format::Program &program = bundle.programs(number);
  Reader reader(program, block);
  reader.visit(program.steps());
  return reader.largest;
}

} // namespace mebp
