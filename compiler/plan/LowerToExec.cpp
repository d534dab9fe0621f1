// SPDX-License-Identifier: Apache-2.0
//
// Lowers the functions of blocks to exec programs.
//
// 1. Arguments: token values have batch * sequence rows, or as many as the function asks for, of which those of the
//    step's tokens are live; states and weights are whole.
// 2. A slice has as many rows as its loop's chunk; of what has no tokens, in a loop over these, it is the trip's
//    own part. A result that adds to an operand is like that operand.
// 3. Another result has the sizes of the operands that share a letter with it in the kernel's signature
//    (format/kernels.h): so a tile of logits has as many columns as the slice of the weight has rows. What no operand
//    shares is as large as its type, or, of tokens, as what a trip of the enclosing loop covers.
#include "compiler/plan/Passes.h"
#include "dialects/nn/Embeddings.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace mebp {
#define GEN_PASS_DEF_LOWERTOEXEC
#include "compiler/plan/Passes.h.inc"

namespace {

using exec::Extent;

struct Axis {
  int64_t size;
  Extent extent = Extent::Whole;
};
struct Shape {
  Axis rows, columns;
};

class FunctionLowering {
public:
  FunctionLowering(OpBuilder &builder, int64_t batch, int64_t sequence)
      : builder(builder), batch(batch), sequence(sequence), tokens(batch * sequence) {}

  LogicalResult lower(func::FuncOp function) {
    if (function.isExternal())
      return function.emitError("has no body to lower");
    if (std::optional<int64_t> rows = train::getTokenRows(function))
      tokens = *rows;
    for (Type type : function.getArgumentTypes())
      if (failed(checkType(function.getLoc(), type)))
        return failure();
    SmallVector<Attribute> inputs, outputs;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      inputs.push_back(train::getArgumentPort(function, i));
      if (!inputs.back())
        return function.emitError() << "argument " << i << " has no train.port";
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      outputs.push_back(train::getResultPort(function, i));
      if (!outputs.back())
        return function.emitError() << "result " << i << " has no train.port";
    }
    auto program = exec::ProgramOp::create(builder, function.getLoc(), function.getSymName(),
                                           builder.getArrayAttr(inputs), builder.getArrayAttr(outputs), false);
    OpBuilder::InsertionGuard guard(builder);
    Block *body = builder.createBlock(&program.getBody());
    for (BlockArgument argument : function.getArguments()) {
      Shape shape = getWholeShape(argument.getType());
      mapping[argument] = body->addArgument(getType(argument.getType(), shape), argument.getLoc());
      shapes[mapping[argument]] = shape;
    }
    return lowerBlock(function.getBody().front());
  }

private:
  Shape getWholeShape(Type type) {
    ArrayRef<int64_t> sizes = cast<RankedTensorType>(type).getShape();
    if (nn::isTokens(type) && nn::getCapacity(type))
      return {{batch * nn::getCapacity(type)}, {sizes[2]}};
    if (nn::isTokens(type))
      return {{tokens, Extent::Tokens}, {sizes[2]}};
    if (sizes.size() == 1)
      return {{1}, {sizes[0]}};
    return {{sizes[0]}, {sizes[1]}};
  }

  Type getType(Type original, Shape shape) {
    bool isWhole = shape.rows.extent == Extent::Whole && shape.columns.extent == Extent::Whole;
    Attribute extent;
    if (!isWhole)
      extent = exec::ExtentAttr::get(builder.getContext(), shape.rows.extent, shape.columns.extent);
    return RankedTensorType::get({shape.rows.size, shape.columns.size},
                                 cast<RankedTensorType>(original).getElementType(), extent);
  }

  void define(Value original, Value lowered, Shape shape) {
    mapping[original] = lowered;
    shapes[lowered] = shape;
  }

  /// A value that can be a matrix.
  static LogicalResult checkType(Location location, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && (nn::isTokens(tensor) || tensor.getRank() == 1 || tensor.getRank() == 2))
      return success();
    return emitError(location) << "has a value that is neither tokens nor a matrix nor a vector: " << type;
  }

  LogicalResult lowerBlock(Block &block) {
    for (Operation &op : block) {
      for (Type type : op.getResultTypes())
        if (failed(checkType(op.getLoc(), type)))
          return failure();
      LogicalResult result =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case<nn::KernelOpInterface, train::LoopOp, train::SliceOp, train::UpdateOp, train::EmptyOp,
                    train::YieldOp, func::ReturnOp>([&](auto typed) { return lowerOp(typed); })
              .Default([](Operation *other) {
                return other->emitError()
                       << "'" << other->getName() << "' is not a kernel: it should have been rewritten";
              });
      if (failed(result))
        return failure();
    }
    return success();
  }

  LogicalResult lowerOp(train::EmptyOp op) {
    Shape shape = getWholeShape(op.getType());
    define(op, exec::EmptyOp::create(builder, op.getLoc(), getType(op.getType(), shape), exec::PlaceAttr()), shape);
    return success();
  }

  LogicalResult lowerOp(train::SliceOp op) {
    Value source = mapping.lookup(op.getSource());
    Shape shape = shapes.lookup(source);
    auto loop = cast<train::LoopOp>(mapping.lookup(op.getTrip()).getParentBlock()->getParentOp());
    if (exec::isOverTokens(loop) && !nn::isTokens(op.getSource().getType())) {
      shape.rows = {cast<RankedTensorType>(op.getType()).getDimSize(0)};
      define(op,
             train::SliceOp::create(builder, op.getLoc(), getType(op.getType(), shape), source,
                                    mapping.lookup(op.getTrip())),
             shape);
      return success();
    }
    bool isVector = !nn::isTokens(op.getSource().getType()) && shape.rows.size == 1;
    Axis &sliced = isVector ? shape.columns : shape.rows;
    sliced = {std::min<int64_t>(loop.getSize(), sliced.size), exec::isOverTokens(loop) ? Extent::Chunk : Extent::Tile};
    define(op,
           train::SliceOp::create(builder, op.getLoc(), getType(op.getType(), shape), source,
                                  mapping.lookup(op.getTrip())),
           shape);
    return success();
  }

  LogicalResult lowerOp(train::UpdateOp op) {
    Value destination = mapping.lookup(op.getDestination());
    define(op,
           train::UpdateOp::create(builder, op.getLoc(), destination, mapping.lookup(op.getSource()),
                                   mapping.lookup(op.getTrip())),
           shapes.lookup(destination));
    return success();
  }

  LogicalResult lowerOp(train::LoopOp op) {
    SmallVector<Value> inits;
    for (Value init : op.getInits())
      inits.push_back(mapping.lookup(init));
    Value over = op.getOver() ? mapping.lookup(op.getOver()) : Value();
    int64_t rows = op.getDomain() == train::Domain::WeightRows  ? shapes.lookup(over).rows.size
                   : op.getDomain() == train::Domain::TokenRows ? tokens
                                                                : sequence;
    int64_t size = std::min<int64_t>(op.getSize(), rows);
    auto loop = train::LoopOp::create(builder, op.getLoc(), op.getDomain(), size, over, inits);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&loop.getBody().front());
    mapping[op.getTrip()] = loop.getTrip();
    for (auto [original, lowered, init] : llvm::zip(op.getCarried(), loop.getCarried(), inits))
      define(original, lowered, shapes.lookup(init));
    int64_t rowsAround = tokenRows;
    if (exec::isOverTokens(loop))
      tokenRows = size;
    if (failed(lowerBlock(op.getBody().front())))
      return failure();
    tokenRows = rowsAround;
    for (auto [original, lowered, init] : llvm::zip(op.getResults(), loop.getResults(), inits))
      define(original, lowered, shapes.lookup(init));
    return success();
  }

  LogicalResult lowerOp(train::YieldOp op) {
    train::YieldOp::create(builder, op.getLoc(), lookupAll(op.getValues()));
    return success();
  }

  LogicalResult lowerOp(func::ReturnOp op) {
    exec::ReturnOp::create(builder, op.getLoc(), lookupAll(op.getOperands()));
    return success();
  }

  LogicalResult lowerOp(nn::KernelOpInterface op) {
    if (auto positions = dyn_cast<nn::PositionEmbeddingOp>(op.getOperation())) {
      int64_t learned = cast<RankedTensorType>(positions.getWeight().getType()).getDimSize(0);
      learned -= positions.getOffset().value_or(0);
      if (sequence > learned)
        return op->emitError() << "--seq-len " << sequence << " is beyond the " << learned
                               << " positions that the model has learned; give at most " << learned;
    }
    SmallVector<Type> types;
    SmallVector<Shape> resultShapes;
    for (OpResult result : op->getResults().take_front(countResults(op))) {
      Value accumulator = op.getAccumulator(result.getResultNumber());
      Shape shape = accumulator ? shapes.lookup(mapping.lookup(accumulator)) : getResultShape(op, result);
      if (ShapedType::isDynamic(shape.columns.size) || ShapedType::isDynamic(shape.rows.size))
        return op->emitError() << "the size of result " << result.getResultNumber()
                               << " is not known: " << result.getType();
      resultShapes.push_back(shape);
      types.push_back(getType(result.getType(), shape));
    }
    NamedAttrList attributes(op->getAttrDictionary());
    attributes.erase("operandSegmentSizes");
    auto kernel =
        exec::KernelOp::create(builder, op->getLoc(), types, op->getName().stripDialect(), lookupAll(op->getOperands()),
                               getSlots(op), ArrayAttr(), attributes.getDictionary(builder.getContext()));
    for (auto [lowered, original, shape] : llvm::zip_first(kernel.getOutputs(), op->getResults(), resultShapes))
      define(original, lowered, shape);
    return success();
  }

  /// Without the last ones that nobody reads and a kernel may leave out.
  static size_t countResults(nn::KernelOpInterface op) {
    const format::KernelSignature &signature = nn::getSignature(op);
    size_t count = op->getNumResults();
    while (count > 0 && signature.parts == format::Parts::None && signature.results[count - 1].optional &&
           op->getResult(count - 1).use_empty())
      --count;
    return count;
  }

  /// By the letters of the kernel's signature; what no operand shares is of the type, or of the loop around.
  Shape getResultShape(nn::KernelOpInterface op, OpResult result) {
    Shape shape = getWholeShape(result.getType());
    if (nn::isTokens(result.getType()) && tokenRows)
      shape.rows = {tokenRows, Extent::Chunk};
    const format::KernelSignature &signature = nn::getSignature(op);
    if (signature.parts == format::Parts::None) {
      const char *letters = signature.results[result.getResultNumber()].shape;
      SmallVector<Value> operands = nn::getSlotOperands(op);
      if (letters[0] == 'Z')
        shape.rows = {tokenRows ? format::marksOf(tokenRows) : batch * format::marksOf(sequence)};
      findAxis(signature, operands, letters[0], shape.rows);
      findAxis(signature, operands, letters[1], shape.columns);
    } else {
      shape.rows = shapes.lookup(mapping.lookup(op->getOperand(0))).rows;
    }
    return shape;
  }

  void findAxis(const format::KernelSignature &signature, ArrayRef<Value> operands, char letter, Axis &axis) {
    for (auto [i, operand] : llvm::enumerate(operands)) {
      if (!operand)
        continue;
      Shape shape = shapes.lookup(mapping.lookup(operand));
      for (auto [side, found] : {std::pair{0, shape.rows}, std::pair{1, shape.columns}})
        if (signature.operands[i].shape[side] == letter && letter != '1') {
          axis = found;
          return;
        }
    }
  }

  /// Which slot of the kernel each operand is for; none has one where there is any number of them.
  static SmallVector<int32_t> getSlots(Operation *op) {
    SmallVector<int32_t> slots;
    if (nn::getSignature(op).parts != format::Parts::None)
      return slots;
    for (auto [slot, operand] : llvm::enumerate(nn::getSlotOperands(op)))
      if (operand)
        slots.push_back(static_cast<int32_t>(slot));
    return slots;
  }

  SmallVector<Value> lookupAll(ValueRange values) {
    SmallVector<Value> lowered;
    for (Value value : values)
      lowered.push_back(mapping.lookup(value));
    return lowered;
  }

  OpBuilder &builder;
  int64_t batch, sequence, tokens; // the largest; a function may ask for fewer of the last
  DenseMap<Value, Value> mapping;
  DenseMap<Value, Shape> shapes;
  int64_t tokenRows = 0; // of the loop over tokens around; 0 where there is none
};

struct LowerToExec : impl::LowerToExecBase<LowerToExec> {
  using LowerToExecBase::LowerToExecBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
      OpBuilder builder(function);
      if (failed(FunctionLowering(builder, batch, sequence).lower(function)))
        return signalPassFailure();
      function.erase();
    }
  }
};

} // namespace
} // namespace mebp
