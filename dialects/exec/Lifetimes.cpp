// SPDX-License-Identifier: Apache-2.0
//
// Lifetimes of a program's values.
//
// 1. Give every op its position; a loop's begins before and ends after those of its body.
// 2. A value begins where it is defined (a carried argument where its loop begins) and ends at its last reader. A
//    reader inside a loop that does not contain the definition reads again in every trip: the value lives to the
//    loop's end. Readers of a slice are readers of what it looks into.
// 3. Memory is handed over by accumulating kernels and updates (operand to result) and by loops (initial to argument,
//    yielded to result), which must; and by kernels that can work in place, which may.
#include "dialects/exec/Lifetimes.h"

using namespace mlir;
using namespace mebp::exec;
using mebp::train::LoopOp;
using mebp::train::UpdateOp;

Lifetimes::Lifetimes(ProgramOp program) : values(numberValues(program)) {
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
      for (auto [result, tie, reuse] : llvm::zip(kernel.getOutputs(), kernel.getTies(), kernel.getReuses())) {
        if (tie >= 0)
          addHandover(kernel.getInputs()[tie], result, true);
        else if (reuse >= 0)
          addHandover(kernel.getInputs()[reuse], result, false);
      }
    } else if (auto update = dyn_cast<UpdateOp>(op)) {
      addHandover(update.getDestination(), update.getResult(), true);
    } else if (auto loop = dyn_cast<LoopOp>(op)) {
      for (auto [init, argument, yielded, result] :
           llvm::zip(loop.getInits(), loop.getCarried(), loop.getYield().getValues(), loop.getResults())) {
        addHandover(init, argument, true);
        addHandover(yielded, result, true);
        // The back edge: the next trip finds the yielded value where its argument is.
        addHandover(argument, yielded, true);
      }
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

void Lifetimes::addHandover(Value from, Value to, bool required) {
  handovers.push_back({getRoot(from), to, required});
  handoverPairs.insert({getRoot(from), to});
}
