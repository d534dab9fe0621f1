// SPDX-License-Identifier: Apache-2.0
//
// Where a model can be cut.
//
// Terms: an activation is any value but a parameter; it crosses a cut if an op before the cut defines it and an op
// after the cut reads it.
// 1. Number the ops. An activation crosses every place from its definition to its last reader; one that is shared, as
//    keys are between layers, to its first reader.
// 2. A place that exactly one activation crosses is a narrow cut: a checkpoint of that value is enough to go on.
// 3. Cut at all of them, then look for the longest periodic run of segments; a period is a layer.
#include "compiler/partition/NarrowCuts.h"

#include "compiler/partition/InputsOfLayers.h"
#include "dialects/nn/Parameters.h"

using namespace mlir;

namespace mebp {

SmallVector<Segment> findSegments(func::FuncOp function, const DenseSet<Operation *> &again) {
  SmallVector<Operation *> ops;
  DenseMap<Operation *, size_t> index;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<nn::ReadParameterOp>(op))
      continue;
    index[&op] = ops.size();
    ops.push_back(&op);
  }

  // crossings[i] counts what crosses the place after op i; the model's input counts too, so it stays in one segment.
  SmallVector<int64_t> change(ops.size() + 1, 0);
  auto addCrossing = [&](Value value, size_t begin) {
    auto place = [&](Operation *user) { return index.count(user) ? index.lookup(user) : ops.size(); };
    size_t end = begin;
    for (Operation *user : value.getUsers())
      if (!isa<BlockArgument>(value) || !again.contains(user))
        end = std::max(end, place(user));
    if (isShared(value))
      for (Operation *user : value.getUsers())
        end = std::min(end, place(user));
    if (end > begin) {
      ++change[begin];
      --change[end];
    }
  };
  for (BlockArgument argument : function.getArguments())
    addCrossing(argument, 0);
  for (size_t i = 0; i < ops.size(); ++i)
    for (Value result : ops[i]->getResults())
      addCrossing(result, i);

  SmallVector<Segment> segments;
  Segment current;
  int64_t crossings = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    current.ops.push_back(ops[i]);
    crossings += change[i];
    if (crossings != 1 && i + 1 != ops.size())
      continue;
    // The one that crosses is defined in this segment: had it come from an earlier one, it would have crossed that cut
    // beside the earlier output.
    for (Operation *op : current.ops)
      for (Value result : op->getResults())
        for (Operation *user : result.getUsers())
          if (!isShared(result) && (!index.count(user) || index.lookup(user) > i))
            current.output = result;
    if (!current.output)
      continue;
    segments.push_back(std::move(current));
    current = Segment();
  }
  return segments;
}

namespace {
bool alike(const Segment &left, const Segment &right) {
  return left.ops.size() == right.ops.size() && left.output.getType() == right.output.getType() &&
         llvm::all_of(llvm::zip(left.ops, right.ops),
                      [](auto pair) { return std::get<0>(pair)->getName() == std::get<1>(pair)->getName(); });
}
} // namespace

Repetition findRepetition(ArrayRef<Segment> segments) {
  Repetition best;
  for (size_t period = 1; 2 * period <= segments.size(); ++period)
    for (size_t begin = 0; begin + 2 * period <= segments.size(); ++begin) {
      size_t end = begin + period;
      while (end < segments.size() && alike(segments[end], segments[end - period]))
        ++end;
      const size_t count = (end - begin) / period, covered = count * period, most = best.count * best.period;
      if (count >= 2 && (covered > most || (covered == most && period == best.period)))
        best = {begin, period, count};
    }
  return best;
}

} // namespace mebp
