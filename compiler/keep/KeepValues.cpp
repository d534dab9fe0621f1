// SPDX-License-Identifier: Apache-2.0
//
// 1. For each layer, by its price, find what its forward keeps (Recomputation.cpp).
// 2. Clone the forward, and let it give these values, too; clone the backward, and let it take them. What nothing reads
//    any more is not computed again. Layers that share functions and a price share the clones.
// 3. Erase functions that no block runs any more, and the times that ops were marked with.
// Gradients have the bits that they would have without: an op of the forward and the same one of the backward give the
// same.
#include "compiler/keep/Passes.h"
#include "compiler/keep/Recomputation.h"

#include "dialects/nn/Locations.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <map>

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_KEEPVALUES
#include "compiler/keep/Passes.h.inc"

namespace {

struct KeepValues : impl::KeepValuesBase<KeepValues> {
  using KeepValuesBase::KeepValuesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t number = 0;
    DenseSet<Attribute> before, after;
    for (auto block : module.getOps<train::BlockOp>()) {
      collectPrograms(block, before);
      if (block.getKind() == train::BlockKind::Layer && block.getProgram(format::backwardProgram))
        if (failed(keep(block, number++ < layers ? price : restPrice)))
          return signalPassFailure();
      collectPrograms(block, after);
    }
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      auto symbol = FlatSymbolRefAttr::get(function);
      if (before.contains(symbol) && !after.contains(symbol))
        function.erase();
    }
    module.walk([](Operation *op) { op->removeDiscardableAttr(Recomputation::secondsAttribute); });
  }

private:
  struct Functions {
    std::string forward, backward;
    bool operator<(const Functions &other) const {
      return std::tie(forward, backward) < std::tie(other.forward, other.backward);
    }
  };

  static void collectPrograms(train::BlockOp block, DenseSet<Attribute> &symbols) {
    for (NamedAttribute program : block.getPrograms())
      symbols.insert(program.getValue());
  }

  LogicalResult keep(train::BlockOp block, double byPrice) {
    if (!std::isfinite(byPrice))
      return success();
    func::FuncOp forward = block.lookupFunction(format::forwardProgram),
                 backward = block.lookupFunction(format::backwardProgram);
    if (!forward || !backward)
      return failure();
    Functions names = {forward.getSymName().str(), backward.getSymName().str()};
    auto [entry, isNew] = done.try_emplace({names, byPrice}, names);
    Functions &kept = entry->second;
    if (isNew) {
      Recomputation::Kept values = Recomputation(forward, backward, narrow).keep(byPrice);
      SmallVector<std::string> portNames = nameValues(values.values);
      if (!portNames.empty())
        kept = {give(forward, values.values, portNames), take(backward, values.values, portNames)};
    }
    block.setProgram(format::forwardProgram, kept.forward);
    block.setProgram(format::backwardProgram, kept.backward);
    return success();
  }

  func::FuncOp clone(func::FuncOp function, IRMapping &mapping) {
    auto copy = cast<func::FuncOp>(function->clone(mapping));
    copy.setName((function.getSymName() + ".kept").str());
    SymbolTable(getOperation()).insert(copy, std::next(function->getIterator()));
    return copy;
  }

  /// What people know each by, within its layer: "mlp.gate_proj", and "mlp.gate_proj.1" for what comes second there.
  static SmallVector<std::string> nameValues(ArrayRef<Recomputation::Pair> values) {
    SmallVector<std::string> names;
    llvm::StringMap<unsigned> known;
    for (const Recomputation::Pair &pair : values) {
      StringRef scope = nn::getScope(pair.forward.getLoc());
      auto isDigit = [](char letter) { return llvm::isDigit(letter); };
      SmallVector<StringRef> parts;
      scope.split(parts, '.');
      auto layer = llvm::find_if(parts, [&](StringRef part) { return !part.empty() && llvm::all_of(part, isDigit); });
      if (layer != parts.end())
        parts.erase(parts.begin(), std::next(layer));
      std::string name = llvm::join(parts, ".");
      unsigned before = known[name]++;
      names.push_back(before || name.empty() ? name + "." + std::to_string(before) : name);
    }
    return names;
  }

  std::string give(func::FuncOp function, ArrayRef<Recomputation::Pair> values, ArrayRef<std::string> names) {
    IRMapping mapping;
    func::FuncOp copy = clone(function, mapping);
    auto terminator = cast<func::ReturnOp>(copy.getBody().front().getTerminator());
    for (auto [pair, name] : llvm::zip(values, names)) {
      Value kept = mapping.lookup(pair.forward);
      unsigned index = copy.getNumResults();
      terminator->insertOperands(index, kept);
      (void)copy.insertResult(index, kept.getType(), {});
      train::setResultPort(copy, index, train::PortKind::Kept, name);
    }
    return copy.getSymName().str();
  }

  std::string take(func::FuncOp function, ArrayRef<Recomputation::Pair> values, ArrayRef<std::string> names) {
    IRMapping mapping;
    func::FuncOp copy = clone(function, mapping);
    for (auto [pair, name] : llvm::zip(values, names)) {
      Value again = mapping.lookup(pair.backward);
      unsigned index = copy.getNumArguments();
      (void)copy.insertArgument(index, again.getType(), {}, again.getLoc());
      train::setArgumentPort(copy, index, train::PortKind::Kept, name);
      again.replaceAllUsesWith(copy.getArgument(index));
    }
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, copy->getRegions());
    return copy.getSymName().str();
  }

  std::map<std::pair<Functions, double>, Functions> done;
};

} // namespace
} // namespace mebp
