// SPDX-License-Identifier: Apache-2.0
//
// Places the values of a program in its scratch arena.
//
// Terms: a group is a set of values in one place; its bytes are its largest value's, its lifetime spans its values'.
// 1. Values that must share memory (accumulators, updates, values carried by loops) form groups.
// 2. A result joins its operand's group where the kernel works in place, sizes agree, and the operand ends there.
// 3. Groups with an input or an output are bound by the runtime; slices have no memory of their own.
// 4. The other groups, largest first, take the lowest offset that no group alive at the same time covers.
// 5. Note whether the program may run in place (dialects/exec/InPlace.h), which halves what flows between blocks.
// The verifier of exec.program checks the outcome value by value, independently of groups.
#include "compiler/plan/Passes.h"
#include "dialects/exec/InPlace.h"
#include "format/alignment.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_PLACEVALUES
#include "compiler/plan/Passes.h.inc"

namespace {

using exec::Lifetimes;
using exec::ProgramOp;

struct Group {
  SmallVector<unsigned> values;
  uint64_t bytes = 0;
  unsigned begin = ~0u, end = 0;
  int64_t offset = 0;
  bool isBound = false;
};

class Placer {
public:
  explicit Placer(ProgramOp program) : program(program), lifetimes(program) {
    for (auto [index, value] : llvm::enumerate(lifetimes.getValues())) {
      numbers[value] = index;
      leader.push_back(index);
    }
  }

  /// Returns the bytes that sharing places saves.
  uint64_t run() {
    for (const Lifetimes::Handover &handover : lifetimes.getHandovers())
      if (handover.required)
        unite(numbers[handover.from], numbers[handover.to]);
    bindInputsAndOutputs();
    for (const Lifetimes::Handover &handover : lifetimes.getHandovers())
      if (!handover.required)
        takeOver(handover);
    makeGroups();
    uint64_t arena = placeGroups();
    writePlacement(arena);

    uint64_t sum = 0;
    for (const Group &group : groups)
      for (unsigned value : group.values)
        sum += group.isBound ? 0 : exec::sizeInBytes(lifetimes.getValues()[value]);
    return sum > arena ? sum - arena : 0;
  }

private:
  unsigned find(unsigned value) {
    while (leader[value] != value)
      value = leader[value] = leader[leader[value]];
    return value;
  }
  void unite(unsigned left, unsigned right) { leader[find(right)] = find(left); }

  bool isSlice(Value value) { return value.getDefiningOp<train::SliceOp>() != nullptr; }

  void bindInputsAndOutputs() {
    for (BlockArgument input : program.getBody().front().getArguments())
      bound.insert(find(numbers[input]));
    for (Value output : program.getReturn().getValues())
      bound.insert(find(numbers[output]));
  }

  void takeOver(const Lifetimes::Handover &handover) {
    unsigned from = find(numbers[handover.from]), to = find(numbers[handover.to]);
    if (from == to || bound.contains(from) || bound.contains(to))
      return;
    if (exec::sizeInBytes(handover.from) != exec::sizeInBytes(handover.to) || isSlice(handover.from))
      return;
    // Every value of the one group must be over when the other begins.
    for (unsigned i = 0; i < leader.size(); ++i)
      for (unsigned j = 0; j < leader.size(); ++j)
        if (find(i) == from && find(j) == to && i != j) {
          Value left = lifetimes.getValues()[i], right = lifetimes.getValues()[j];
          if (isSlice(left) || isSlice(right))
            continue;
          bool isPair = left == handover.from && right == handover.to;
          Lifetimes::Interval a = lifetimes.get(left), b = lifetimes.get(right);
          if (isPair ? a.end > b.begin : a.intersects(b))
            return;
        }
    unite(from, to);
  }

  void makeGroups() {
    DenseMap<unsigned, unsigned> groupOf;
    for (auto [index, value] : llvm::enumerate(lifetimes.getValues())) {
      if (isSlice(value))
        continue;
      auto [entry, isNew] = groupOf.try_emplace(find(index), groups.size());
      if (isNew)
        groups.emplace_back();
      Group &group = groups[entry->second];
      Lifetimes::Interval interval = lifetimes.get(value);
      group.values.push_back(index);
      group.bytes = std::max(group.bytes, format::alignUp(exec::sizeInBytes(value)));
      group.begin = std::min(group.begin, interval.begin);
      group.end = std::max(group.end, interval.end);
      group.isBound = bound.contains(find(index));
    }
  }

  uint64_t placeGroups() {
    SmallVector<Group *> order;
    for (Group &group : groups)
      if (!group.isBound)
        order.push_back(&group);
    llvm::stable_sort(order, [](const Group *left, const Group *right) { return left->bytes > right->bytes; });
    uint64_t arena = 0;
    SmallVector<Group *> placed; // by offset
    for (Group *group : order) {
      int64_t offset = 0;
      for (Group *other : placed) {
        if (group->end < other->begin || other->end < group->begin)
          continue;
        if (offset + static_cast<int64_t>(group->bytes) <= other->offset)
          break;
        offset = std::max<int64_t>(offset, other->offset + other->bytes);
      }
      group->offset = offset;
      placed.insert(
          llvm::upper_bound(placed, group, [](const Group *a, const Group *b) { return a->offset < b->offset; }),
          group);
      arena = std::max<uint64_t>(arena, offset + group->bytes);
    }
    return arena;
  }

  void writePlacement(uint64_t arena) {
    SmallVector<int64_t> placement(lifetimes.getValues().size(), ProgramOp::view);
    for (const Group &group : groups)
      for (unsigned value : group.values)
        placement[value] = group.isBound ? ProgramOp::bound : group.offset;
    // Of a bound group one value is bound, the input or output itself; the others name it.
    DenseMap<unsigned, unsigned> binding;
    for (BlockArgument input : program.getBody().front().getArguments())
      binding[find(numbers[input])] = numbers[input];
    for (Value output : program.getReturn().getValues())
      binding.try_emplace(find(numbers[output]), numbers[output]);
    for (const Group &group : groups)
      for (unsigned value : group.values)
        if (group.isBound && binding.lookup(find(value)) != value)
          placement[value] = ProgramOp::firstAlias - static_cast<int64_t>(binding.lookup(find(value)));
    Builder builder(program.getContext());
    program.setArenaBytes(arena);
    program.setPlacementAttr(builder.getDenseI64ArrayAttr(placement));
    program.setInPlace(exec::mayRunInPlace(program, lifetimes));
  }

  ProgramOp program;
  Lifetimes lifetimes;
  DenseMap<Value, unsigned> numbers;
  SmallVector<unsigned> leader;
  DenseSet<unsigned> bound; // leaders
  SmallVector<Group> groups;
};

struct PlaceValues : impl::PlaceValuesBase<PlaceValues> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      saved += Placer(program).run();
  }
};

} // namespace
} // namespace mebp
