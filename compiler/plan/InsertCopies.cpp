// SPDX-License-Identifier: Apache-2.0
//
// Copies what is needed in two places.
//
// Terms: an op that adds to an operand, that updates it or that carries it through a loop takes its memory over
// (Lifetimes.h). That is wrong where the value is read later or beside, where two ops take it over, where it is an
// input or a slice, and where a trip yields it while the argument, in whose memory the next trip finds it, is still
// read.
// 1. Put together the places that must be one, handover by handover.
// 2. Where that fails, give the op that takes over a copy of its own, just before it, and begin again. What is computed
//    from nothing is computed again instead.
// 3. An output that is an input, a slice or another output is copied, too.
#include "compiler/plan/InsertCopies.h"

#include "compiler/plan/SharedPlaces.h"
#include "dialects/exec/Placement.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace mebp {

namespace {

/// Whether no op of the program may write where the value lies.
bool isForeign(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isa<exec::ProgramOp>(argument.getOwner()->getParentOp()) && !exec::isState(value);
  return value.getDefiningOp<train::SliceOp>() != nullptr;
}

/// Whether the op reads what it takes over in another operand as well.
bool isReadBeside(OpOperand &use) {
  return isa<exec::KernelOp, train::UpdateOp>(use.getOwner()) &&
         llvm::any_of(use.getOwner()->getOpOperands(),
                      [&](OpOperand &other) { return &other != &use && exec::getRoot(other.get()) == use.get(); });
}

/// Where `value` leaves the trip; null where it does not.
OpOperand *findYield(train::YieldOp yield, Value value) {
  auto found = llvm::find_if(yield->getOpOperands(), [&](OpOperand &operand) { return operand.get() == value; });
  return found == yield->getOpOperands().end() ? nullptr : &*found;
}

/// The first use of a value that has to be of a copy; null where there is none.
OpOperand *findConflict(exec::ProgramOp program) {
  Lifetimes lifetimes(program);
  SharedPlaces places(lifetimes);
  for (const Lifetimes::Handover &handover : lifetimes.getHandovers()) {
    if (!handover.required)
      continue;
    if (isForeign(handover.use->get()) || isReadBeside(*handover.use))
      return handover.use;
    auto conflict = places.unite(handover.from, handover.to);
    if (!conflict)
      continue;
    // What lies where the argument does and is yielded as another cannot make room by a copy of this one.
    auto yield = dyn_cast<train::YieldOp>(handover.use->getOwner());
    OpOperand *other = yield ? findYield(yield, conflict->first) : nullptr;
    return other ? other : handover.use;
  }
  DenseSet<Value> outputs;
  for (OpOperand &output : program.getReturn()->getOpOperands())
    if (isForeign(output.get()) || !outputs.insert(output.get()).second)
      return &output;
  return nullptr;
}

void copy(OpOperand &use) {
  Value value = use.get();
  OpBuilder builder(use.getOwner());
  Operation *definition = value.getDefiningOp();
  if (definition && definition->getNumOperands() == 0 && definition->getNumResults() == 1 &&
      definition->getNumRegions() == 0) {
    use.set(builder.clone(*definition)->getResult(0));
    return;
  }
  // Joined columns of one part.
  auto kernel = exec::KernelOp::create(builder, use.getOwner()->getLoc(), value.getType(), "concat", value,
                                       ArrayRef<int32_t>(), ArrayAttr(), builder.getDictionaryAttr({}));
  use.set(kernel.getOutputs()[0]);
}

} // namespace

FailureOr<unsigned> insertCopies(exec::ProgramOp program) {
  // Each use of before needs a copy, and what is yielded at most two more.
  unsigned copies = 0, most = 0;
  program.walk([&](Operation *op) { most += 3 * op->getNumOperands(); });
  while (OpOperand *use = findConflict(program)) {
    if (copies++ == most)
      return program.emitOpError("needs copies without end; this is a bug in mebpc, please report it");
    copy(*use);
  }
  return copies;
}

} // namespace mebp
