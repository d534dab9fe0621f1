// SPDX-License-Identifier: Apache-2.0
//
// Each op of a function without loops becomes one kernel call, so a lowered copy says what an op costs.
#include "compiler/pipeline/PriceRecomputation.h"

#include "compiler/keep/Recomputation.h"
#include "compiler/plan/Passes.h"
#include "compiler/rewrite/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace mebp {

LogicalResult priceRecomputation(ModuleOp module, const Options &options, const Machine &machine) {
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager passes(module.getContext());
  passes.addPass(createTileLoss()); // a head as it is has no kernel
  LowerToExecOptions lower;
  lower.batch = options.shape.batch;
  lower.sequence = options.shape.sequence;
  passes.addPass(createLowerToExec(lower));
  if (failed(passes.run(*copy)))
    return failure();

  Builder builder(module.getContext());
  DenseSet<Attribute> done;
  for (auto block : copy->getOps<train::BlockOp>()) {
    FlatSymbolRefAttr name = block.getProgram(format::backwardProgram);
    if (block.getKind() != train::BlockKind::Layer || !name || !done.insert(name).second)
      continue;
    std::vector<double> seconds = predictCalls(copy->lookupSymbol<exec::ProgramOp>(name), block, options.shape.sequence,
                                               options.storage.narrowActivations, machine);
    auto function = module.lookupSymbol<func::FuncOp>(name);
    assert(llvm::range_size(function.getBody().front().without_terminator()) == seconds.size());
    for (auto [op, of] : llvm::zip(function.getBody().front().without_terminator(), seconds))
      op.setAttr(Recomputation::secondsAttribute, builder.getF64FloatAttr(of));
  }
  return success();
}

} // namespace mebp
