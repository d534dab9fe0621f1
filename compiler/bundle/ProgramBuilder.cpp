// SPDX-License-Identifier: Apache-2.0
#include "compiler/bundle/ProgramBuilder.h"

#include "dialects/exec/Placement.h"
#include "dialects/nn/Locations.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace mebp {

namespace {

static_assert(static_cast<int>(train::PortKind::Flow) == format::Port::FLOW &&
              static_cast<int>(train::PortKind::Parameter) == format::Port::PARAMETER &&
              static_cast<int>(train::PortKind::Gradient) == format::Port::GRADIENT &&
              static_cast<int>(train::PortKind::State) == format::Port::STATE &&
              static_cast<int>(train::PortKind::Batch) == format::Port::BATCH &&
              static_cast<int>(train::PortKind::Result) == format::Port::RESULT &&
              static_cast<int>(train::PortKind::Remote) == format::Port::REMOTE &&
              static_cast<int>(train::PortKind::Kept) == format::Port::KEPT &&
              static_cast<int>(train::PortKind::Shared) == format::Port::SHARED);

class Builder {
public:
  Builder(exec::ProgramOp program, llvm::function_ref<format::ElementType(StringRef)> parameterElement,
          format::Program &out)
      : program(program), parameterElement(parameterElement), out(out) {
    for (auto [index, value] : llvm::enumerate(exec::numberValues(program)))
      numbers[value] = index;
    for (auto [index, loop] : llvm::enumerate(exec::numberLoops(program)))
      loops[loop.getTrip()] = index;
  }

  void run() {
    out.set_name(program.getSymName().str());
    out.set_loops(loops.size());
    out.set_arena_bytes(program.getArenaBytes());
    out.set_in_place(program.getInPlace());
    addValues();
    Block &body = program.getBody().front();
    for (auto [index, argument] : llvm::enumerate(body.getArguments()))
      addPort(program.getInputPort(index), argument, *out.add_inputs());
    for (auto [index, value] : llvm::enumerate(program.getReturn().getValues()))
      addPort(program.getOutputPort(index), value, *out.add_outputs());
    addSteps(body, *out.mutable_steps());
  }

private:
  void addPort(train::PortAttr port, Value value, format::Port &message) {
    message.set_kind(static_cast<format::Port::Kind>(port.getKind()));
    message.set_name(port.getName().str());
    message.set_value(numbers.lookup(value));
  }

  void addValues() {
    for (Value value : exec::numberValues(program)) {
      auto type = cast<RankedTensorType>(value.getType());
      format::Value &message = *out.add_values();
      message.set_element(getElement(value));
      message.set_rows(type.getDimSize(0));
      message.set_columns(type.getDimSize(1));
      message.set_source(nn::describeLocation(value.getLoc()));
      exec::Extents extents = exec::getExtents(value);
      if (extents.rows != exec::Extent::Whole)
        setExtent(extents.rows, value, *message.mutable_row_extent());
      if (extents.columns != exec::Extent::Whole)
        setExtent(extents.columns, value, *message.mutable_column_extent());
      setPlacement(value, *message.mutable_placement());
    }
  }

  void setPlacement(Value value, format::Placement &message) {
    exec::Span place = *exec::locate(value);
    if (value.getDefiningOp<train::SliceOp>()) {
      message.set_kind(format::Placement::VIEW);
    } else if (place.memory == exec::Memory::Arena) {
      message.set_kind(format::Placement::ARENA);
      message.set_offset(place.begin);
    } else {
      Value bound = place.memory == exec::Memory::Output ? program.getReturn().getValues()[place.number]
                                                         : program.getBody().front().getArgument(place.number);
      if (value == bound)
        return;
      message.set_kind(format::Placement::ALIAS);
      message.set_alias(numbers.lookup(bound));
    }
  }

  /// Parameters, and slices of them, are as they are stored; everything else is as it is computed.
  format::ElementType getElement(Value value) {
    if (std::optional<StringRef> parameter = exec::getParameter(program, value))
      return parameterElement(*parameter);
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    return element.isInteger() ? format::I32 : element.isBF16() ? format::BF16 : format::F32;
  }

  void setExtent(exec::Extent extent, Value value, format::Extent &message) {
    if (extent == exec::Extent::Tokens) {
      message.set_kind(format::Extent::TOKENS);
      return;
    }
    auto loop = cast<train::LoopOp>(value.getParentBlock()->getParentOp());
    while (exec::isOverTokens(loop) != (extent == exec::Extent::Chunk))
      loop = cast<train::LoopOp>(loop->getParentOp());
    message.set_kind(format::Extent::LOOP);
    message.set_loop(loops.lookup(loop.getTrip()));
  }

  using Steps = format::Repeated<format::Step>;

  void addSteps(Block &block, Steps &steps) {
    for (Operation &op : block)
      llvm::TypeSwitch<Operation *>(&op)
          .Case<exec::KernelOp>([&](auto kernel) { addKernel(kernel, *steps.Add()->mutable_kernel()); })
          .Case<train::LoopOp>([&](auto loop) { addLoop(loop, *steps.Add()->mutable_loop()); })
          .Case<train::SliceOp>([&](auto slice) {
            format::Slice &message = *steps.Add()->mutable_slice();
            message.set_source(numbers.lookup(slice.getSource()));
            message.set_result(numbers.lookup(slice.getResult()));
            message.set_loop(loops.lookup(slice.getTrip()));
          })
          .Case<train::UpdateOp>([&](auto update) {
            format::Update &message = *steps.Add()->mutable_update();
            message.set_destination(numbers.lookup(update.getDestination()));
            message.set_source(numbers.lookup(update.getSource()));
            message.set_result(numbers.lookup(update.getResult()));
            message.set_loop(loops.lookup(update.getTrip()));
          });
  }

  void addKernel(exec::KernelOp kernel, format::Kernel &message) {
    message.set_name(kernel.getKernel().str());
    for (Value operand : kernel.getSlotOperands())
      message.add_operands(operand ? static_cast<int32_t>(numbers.lookup(operand)) : -1);
    for (Value result : kernel.getOutputs())
      message.add_results(numbers.lookup(result));
    for (NamedAttribute named : kernel.getKernelAttributes()) {
      format::Attribute &attribute = *message.add_attributes();
      attribute.set_name(named.getName().str());
      llvm::TypeSwitch<Attribute>(named.getValue())
          .Case<FloatAttr>([&](auto value) { attribute.set_number(value.getValueAsDouble()); })
          .Case<BoolAttr>([&](auto value) { attribute.set_number(value.getValue()); })
          .Case<IntegerAttr>([&](auto value) { attribute.set_number(static_cast<double>(value.getInt())); })
          .Case<UnitAttr>([&](auto) { attribute.set_number(1); })
          .Case<StringAttr>([&](auto value) { attribute.set_text(value.getValue().str()); })
          .Case<DenseF32ArrayAttr>([&](auto values) {
            for (float value : values.asArrayRef())
              attribute.add_numbers(value);
          });
    }
  }

  void addLoop(train::LoopOp loop, format::Loop &message) {
    message.set_loop(loops.lookup(loop.getTrip()));
    message.set_size(loop.getSize());
    switch (loop.getDomain()) {
    case train::Domain::Sequence:
      message.set_domain(format::Loop::SEQUENCE);
      break;
    case train::Domain::SequenceReversed:
      message.set_domain(format::Loop::SEQUENCE_REVERSED);
      break;
    case train::Domain::TokenRows:
      message.set_domain(format::Loop::TOKEN_ROWS);
      break;
    case train::Domain::WeightRows:
      message.set_domain(format::Loop::WEIGHT_ROWS);
      message.set_domain_value(numbers.lookup(loop.getOver()));
      break;
    }
    for (auto [initial, argument, yielded, result] :
         llvm::zip(loop.getInits(), loop.getCarried(), loop.getYield().getValues(), loop.getResults())) {
      format::Carried &carried = *message.add_carried();
      carried.set_initial(numbers.lookup(initial));
      carried.set_argument(numbers.lookup(argument));
      carried.set_yielded(numbers.lookup(yielded));
      carried.set_result(numbers.lookup(result));
    }
    addSteps(loop.getBody().front(), *message.mutable_steps());
  }

  exec::ProgramOp program;
  llvm::function_ref<format::ElementType(StringRef)> parameterElement;
  format::Program &out;
  DenseMap<Value, unsigned> numbers, loops;
};

} // namespace

void buildProgram(exec::ProgramOp program, llvm::function_ref<format::ElementType(StringRef)> parameterElement,
                  format::Program &out) {
  Builder(program, parameterElement, out).run();
}

} // namespace mebp
