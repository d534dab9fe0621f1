// SPDX-License-Identifier: Apache-2.0
//
// Places the values of a program in its scratch arena.
//
// Terms: a group is a set of values in one place; its bytes are its largest value's, its lifetime spans its values'.
// 1. Values that must share memory (accumulators, updates, values carried by loops) form groups; copies have been made
//    where they could not (InsertCopies.cpp).
// 2. A result joins its operand's group where the kernel works in place, sizes agree, and the operand ends there.
// 3. Groups with an input or an output are bound by the runtime; slices have no memory of their own. Only what the
//    caller takes is joined by others (logits, before their cap): what flows may be where the input still is.
// 4. The other groups, largest first, take the lowest offset that no group alive at the same time covers.
// 5. Note whether the program may run in place (dialects/exec/InPlace.cpp), which halves what flows between blocks.
// The verifier of exec.program runs the outcome on a shadow of its memory, and knows nothing of groups.
#include "compiler/plan/InsertCopies.h"
#include "compiler/plan/Passes.h"
#include "compiler/plan/SharedPlaces.h"
#include "dialects/exec/Placement.h"
#include "format/alignment.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_PLACEVALUES
#include "compiler/plan/Passes.h.inc"

namespace {

using exec::PlaceAttr;
using exec::ProgramOp;

struct Group {
  uint64_t bytes = 0;
  unsigned begin = ~0u, end = 0;
  int64_t offset = 0;
};

class Placer {
public:
  explicit Placer(ProgramOp program) : program(program), lifetimes(program), places(lifetimes) {}

  LogicalResult run() {
    if (failed(uniteWhatMustBe()))
      return failure();
    bindInputsAndOutputs();
    for (const Lifetimes::Handover &handover : lifetimes.getHandovers())
      if (!isBound(handover.from) && (!isBound(handover.to) || isForCaller(handover.to)))
        places.unite(handover.to, handover.from);
    makeGroups();
    placeGroups();
    writePlaces();
    program.setInPlace(exec::mayRunInPlace(program));
    return success();
  }

  /// The bytes that sharing places saves.
  uint64_t countSaved() {
    uint64_t sum = 0;
    for (Value value : lifetimes.getValues())
      if (!isSlice(value) && !isBound(value))
        sum += exec::sizeInBytes(value);
    uint64_t arena = program.getArenaBytes();
    return sum > arena ? sum - arena : 0;
  }

private:
  LogicalResult uniteWhatMustBe() {
    for (const Lifetimes::Handover &handover : lifetimes.getHandovers())
      if (handover.required && places.unite(handover.from, handover.to))
        return handover.use->getOwner()->emitOpError(
            "takes over memory that is needed later; this is a bug in mebpc, please report it");
    return success();
  }

  static bool isSlice(Value value) { return value.getDefiningOp<train::SliceOp>() != nullptr; }
  bool isBound(Value value) { return bound.contains(places.getNumber(value)); }
  /// Whether it is an output whose memory is nothing else's before, unlike that of what flows between blocks.
  bool isForCaller(Value value) {
    auto place = bound.find(places.getNumber(value));
    return place != bound.end() && place->second.getMemory() == exec::Memory::Output &&
           program.getOutputPort(static_cast<unsigned>(place->second.getNumber())).getKind() == train::PortKind::Result;
  }

  void bindInputsAndOutputs() {
    for (BlockArgument input : program.getBody().front().getArguments())
      bound.insert({places.getNumber(input), getPlace(exec::Memory::Input, input.getArgNumber())});
    for (auto [index, output] : llvm::enumerate(program.getReturn().getValues()))
      bound.insert({places.getNumber(output), getPlace(exec::Memory::Output, index)});
  }

  void makeGroups() {
    for (Value value : lifetimes.getValues()) {
      if (isSlice(value) || isBound(value))
        continue;
      Group &group = groups[places.getNumber(value)];
      Lifetimes::Interval interval = lifetimes.get(value);
      group.bytes = std::max(group.bytes, format::alignUp(exec::sizeInBytes(value)));
      group.begin = std::min(group.begin, interval.begin);
      group.end = std::max(group.end, interval.end);
    }
  }

  void placeGroups() {
    SmallVector<Group *> order;
    for (auto &[number, group] : groups)
      order.push_back(&group);
    llvm::stable_sort(order, [](const Group *left, const Group *right) { return left->bytes > right->bytes; });
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
    }
  }

  PlaceAttr getPlace(exec::Memory memory, int64_t number) {
    return PlaceAttr::get(program.getContext(), memory, number);
  }
  PlaceAttr getPlace(Value value) {
    unsigned number = places.getNumber(value);
    auto binding = bound.find(number);
    return binding != bound.end() ? binding->second : getPlace(exec::Memory::Arena, groups[number].offset);
  }

  void writePlaces() {
    program.walk([&](Operation *op) {
      if (auto kernel = dyn_cast<exec::KernelOp>(op)) {
        SmallVector<Attribute> ofResults;
        for (Value result : kernel.getOutputs())
          ofResults.push_back(getPlace(result));
        kernel.setPlacesAttr(ArrayAttr::get(op->getContext(), ofResults));
      } else if (auto empty = dyn_cast<exec::EmptyOp>(op)) {
        empty.setPlaceAttr(getPlace(empty.getResult()));
      }
    });
  }

  ProgramOp program;
  Lifetimes lifetimes;
  SharedPlaces places;
  DenseMap<unsigned, PlaceAttr> bound;     // by number: an input's, of which a state is written, or an output's
  llvm::MapVector<unsigned, Group> groups; // by number: what lies in the arena
};

struct PlaceValues : impl::PlaceValuesBase<PlaceValues> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>()) {
      FailureOr<unsigned> made = insertCopies(program);
      if (failed(made))
        return signalPassFailure();
      copies += *made;
      Placer placer(program); // which looks at lifetimes with the copies
      if (failed(placer.run()))
        return signalPassFailure();
      saved += placer.countSaved();
    }
  }
};

} // namespace
} // namespace mebp
