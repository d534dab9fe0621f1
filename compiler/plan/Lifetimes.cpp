// SPDX-License-Identifier: Apache-2.0
//
// Lifetimes of a program's values.
//
// 1. Give every op its position; a loop's begins before and ends after those of its body.
// 2. A value begins where it is defined (a carried argument where its loop begins) and ends at its last reader. A
//    reader inside a loop that does not contain the definition reads again in every trip: the value lives to the
//    loop's end. Readers of a slice are readers of what it looks into.
// 3. Memory is handed over by accumulating kernels and updates (operand to result) and by loops (initial to argument,
//    yielded to result), which must; and by kernels that can work in place, which may. What a trip yields is found by
//    the next one where its argument is, so it begins only when the argument is read no more.
#include "compiler/plan/Lifetimes.h"

using namespace mlir;

namespace mebp {

using exec::getRoot;
using exec::KernelOp;
using train::LoopOp;
using train::UpdateOp;

Lifetimes::Lifetimes(exec::ProgramOp program) : values(exec::numberValues(program)) {
  Block &body = program.getBody().front();
  countPositions(body);

  for (Value value : values) {
    unsigned begin = 0;
    if (Operation *definition = value.getDefiningOp())
      begin = isa<LoopOp>(definition) ? positions[definition].end : positions[definition].begin;
    else if (Operation *parent = value.getParentBlock()->getParentOp(); isa<LoopOp>(parent))
      begin = positions[parent].begin;
    intervals[value] = {begin, begin};
  }
  for (Value value : values)
    for (Operation *user : value.getUsers())
      extend(getRoot(value), user, positions[user].begin);

  program.walk([&](Operation *op) {
    if (auto kernel = dyn_cast<KernelOp>(op)) {
      for (auto [number, result] : llvm::enumerate(kernel.getOutputs())) {
        if (OpOperand *accumulator = kernel.getAccumulator(number))
          addHandover(*accumulator, result, true);
        else if (OpOperand *reusable = kernel.getReusable(number))
          addHandover(*reusable, result, false);
      }
    } else if (auto update = dyn_cast<UpdateOp>(op)) {
      addHandover(update.getDestinationMutable(), update.getResult(), true);
    } else if (auto loop = dyn_cast<LoopOp>(op)) {
      for (auto [init, argument] : llvm::zip(loop.getInitsMutable(), loop.getCarried()))
        addHandover(init, argument, true);
      for (auto [yielded, argument] : llvm::zip(loop.getYield().getValuesMutable(), loop.getCarried()))
        handovers.push_back({argument, yielded.get(), &yielded, true});
      for (auto [yielded, result] : llvm::zip(loop.getYield().getValuesMutable(), loop.getResults()))
        addHandover(yielded, result, true);
    }
  });
}

void Lifetimes::countPositions(Block &block) {
  for (Operation &op : block) {
    unsigned begin = nextPosition++;
    unsigned end = begin;
    if (auto loop = dyn_cast<LoopOp>(op)) {
      countPositions(loop.getBody().front());
      end = nextPosition++;
    }
    positions[&op] = {begin, end};
  }
}

void Lifetimes::extend(Value value, Operation *user, unsigned position) {
  // A yielded value is needed until the trip is over.
  if (isa<train::YieldOp>(user))
    position = positions[user->getParentOp()].end;
  Block *home = value.getParentBlock();
  for (Operation *loop = user->getParentOp(); loop && user->getBlock() != home; loop = user->getParentOp()) {
    user = loop;
    position = positions[loop].end;
  }
  Interval &interval = intervals[value];
  interval.end = std::max(interval.end, position);
}

void Lifetimes::addHandover(OpOperand &use, Value to, bool required) {
  handovers.push_back({use.get(), to, &use, required});
  handoverPairs.insert({use.get(), to});
}

bool Lifetimes::mayShare(Value left, Value right) const {
  auto hands = [&](Value from, Value to) {
    return handoverPairs.contains({from, to}) && get(from).end <= get(to).begin;
  };
  return left == right || !get(left).intersects(get(right)) || hands(left, right) || hands(right, left);
}

} // namespace mebp
