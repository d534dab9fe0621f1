// SPDX-License-Identifier: Apache-2.0
//
// A gradient that is applied at once has memory while its block runs, one that is kept or summed its own. One of
// several blocks, as of a tied table, has its own in any case, where the first of them writes it. Beside those of the
// head is what it takes and gives, which nobody reads when others come.
#include "compiler/plan/GradientMemory.h"

#include "format/alignment.h"

using namespace mlir;

namespace mebp {

bool isGradient(train::PortAttr port) {
  return port.getKind() == train::PortKind::Gradient && format::thinSuffixOf(std::string_view(port.getName())).empty();
}

format::TrainedShape getTrainedShape(nn::ParameterOp parameter) {
  ArrayRef<int64_t> shape = parameter.getTensorType().getShape();
  format::TrainedShape trained;
  trained.columns = shape.back();
  trained.rows = parameter.getTensorType().getNumElements() / trained.columns;
  trained.rank = parameter.getGradientRank().value_or(0);
  return trained;
}

GradientNeeds countGradients(ModuleOp module, uint64_t headBytes, uint64_t subspaceSums) {
  SmallVector<SmallVector<nn::ParameterOp>> byBlock; // as the backward comes to them
  DenseMap<Operation *, unsigned> readers;
  SmallVector<train::BlockOp> blocks = llvm::to_vector(module.getOps<train::BlockOp>());
  for (train::BlockOp block : llvm::reverse(blocks)) {
    SmallVector<nn::ParameterOp> &ofBlock = byBlock.emplace_back();
    for (NamedAttribute named : block.getPrograms()) {
      auto program = module.lookupSymbol<exec::ProgramOp>(cast<FlatSymbolRefAttr>(named.getValue()));
      for (auto port : program.getOutputPorts().getAsRange<train::PortAttr>())
        if (isGradient(port))
          ofBlock.push_back(module.lookupSymbol<nn::ParameterOp>(block.getParameter(port.getName())));
    }
    for (nn::ParameterOp parameter : ofBlock)
      ++readers[parameter];
  }
  GradientNeeds needs;
  DenseSet<Operation *> begun;
  uint64_t ownOfShared = 0, own = 0, mostApplied = 0, mostKept = 0, mostSummed = 0;
  for (auto [index, ofBlock] : llvm::enumerate(byBlock)) {
    uint64_t ofHead = index == 0 ? headBytes : 0, applied = ofHead, kept = ofHead, summed = ofHead;
    for (nn::ParameterOp parameter : ofBlock) {
      uint64_t bytes = format::alignUp(getTrainedShape(parameter).gradientElements() * sizeof(float));
      bool isFirst = begun.insert(parameter).second, isShared = readers.lookup(parameter) > 1;
      own += isFirst ? bytes : 0;
      ownOfShared += isFirst && isShared ? bytes : 0;
      applied += isFirst && isShared ? 0 : bytes;
      kept += isFirst ? 0 : bytes;
      summed += bytes;
    }
    mostApplied = std::max(mostApplied, applied);
    mostKept = std::max(mostKept, kept);
    mostSummed = std::max(mostSummed, summed);
  }
  return {ownOfShared + mostApplied, own + mostKept, std::max(own, subspaceSums) + mostSummed, mostSummed};
}

} // namespace mebp
