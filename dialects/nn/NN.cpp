// SPDX-License-Identifier: Apache-2.0
//
// The nn dialect, and what its ops check beyond shapes (Kernels.cpp). Gradient rules are in NNGradients.cpp.
#include "dialects/nn/NN.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mebp::nn;

#include "dialects/nn/NNDialect.cpp.inc"
#include "dialects/nn/NNInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttributes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/nn/NNOps.cpp.inc"

void NNDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/NNAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNOps.cpp.inc"
      >();
}

LogicalResult TokensAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (shape.size() == 3 && ShapedType::isDynamic(shape[0]))
    return success();
  return emitError() << "#nn.tokens is of tensors ?x?xF, or ?xNxF for a state: the batch is known at run time";
}

//===- Verifiers -------------------------------------------------------------------------------------------------===//

namespace {

/// Checks a value's last size; one known at run time only agrees with any.
LogicalResult checkFeatures(Operation *op, Value value, StringRef name, int64_t expected) {
  int64_t size = features(value);
  if (ShapedType::isDynamic(size) || ShapedType::isDynamic(expected) || size == expected)
    return success();
  return op->emitOpError() << "'" << name << "' has size " << size << " where " << expected
                           << " is needed: " << value.getType();
}

LogicalResult checkLow(Operation *op, Value low, Value weight) {
  if (!low == !weight)
    return success();
  return op->emitOpError() << "has one of 'low' and 'low_weight'; give both or none";
}

LogicalResult checkLike(Operation *op, Value value, StringRef name, Value other) {
  if (value.getType() == other.getType())
    return success();
  return op->emitOpError() << "'" << name << "' is " << value.getType() << " where " << other.getType() << " is needed";
}

LogicalResult checkSoftcap(Operation *op, std::optional<APFloat> softcap) {
  if (!softcap || (softcap->isFiniteNonZero() && !softcap->isNegative()))
    return success();
  return op->emitOpError() << "has a softcap of " << softcap->convertToFloat() << "; a number above 0 is needed";
}

template <typename Op> LogicalResult checkBounds(Op op) {
  std::optional<APFloat> lower = op.getLower(), upper = op.getUpper();
  if (!lower && !upper)
    return op.emitOpError("has no bounds; give 'lower', 'upper' or both");
  for (std::optional<APFloat> bound : {lower, upper})
    if (bound && !bound->isFinite())
      return op.emitOpError() << "has a bound of " << bound->convertToFloat() << "; leave it out";
  if (lower && upper && *upper < *lower)
    return op.emitOpError() << "has bounds " << lower->convertToFloat() << " and " << upper->convertToFloat()
                            << ", which leave no number between them";
  return success();
}

/// What reads the head's weight, and beside it perhaps the one of a product of low rank.
template <typename Op> LogicalResult checkHead(Op op) {
  if (failed(checkFeatures(op, op.getX(), "x", features(op.getWeight()))) ||
      failed(checkLow(op, op.getLow(), op.getLowWeight())) || failed(checkSoftcap(op, op.getSoftcap())))
    return failure();
  int64_t rows = cast<RankedTensorType>(op.getWeight().getType()).getDimSize(0);
  if (op.getBias() && failed(checkFeatures(op, op.getBias(), "bias", rows)))
    return failure();
  if (!op.getLow())
    return success();
  int64_t lowRows = cast<RankedTensorType>(op.getLowWeight().getType()).getDimSize(0);
  if (rows != lowRows)
    return op.emitOpError() << "'low_weight' has " << lowRows << " rows where " << rows << " are needed";
  return checkFeatures(op, op.getLowWeight(), "low_weight", features(op.getLow()));
}

/// Values, and with them what attention gives, may be of another width than queries and keys.
LogicalResult checkHeads(Operation *op, Value q, Value k, Value v, Value o, Value lse, int64_t heads, int64_t kvHeads) {
  if (heads <= 0 || kvHeads <= 0 || heads % kvHeads)
    return op->emitOpError() << "has " << heads << " heads, which " << kvHeads << " key and value heads do not divide";
  for (auto [value, name, count] : {std::tuple<Value, StringRef, int64_t>{q, "q", heads}, {v, "v", kvHeads}})
    if (features(value) % count)
      return op->emitOpError() << "has " << count << " heads, which do not divide the " << features(value)
                               << " features of '" << name << "'";
  return success(succeeded(checkFeatures(op, k, "k", features(q) / heads * kvHeads)) &&
                 succeeded(checkFeatures(op, o, "o", features(v) / kvHeads * heads)) &&
                 succeeded(checkFeatures(op, lse, "lse", heads)));
}

/// A state has room for `capacity` positions; 0: it is none.
LogicalResult checkCapacity(Operation *op, ValueRange values, int64_t capacity) {
  for (Value value : values)
    if (getCapacity(value.getType()) != capacity)
      return op->emitOpError() << "has a capacity of " << capacity << " beside " << value.getType();
  return success();
}

LogicalResult checkNorm(Operation *op, Value x, Value weight) {
  int64_t group = features(weight);
  if (group <= 0 || features(x) % group)
    return op->emitOpError() << "has a weight of " << group << " elements, which do not divide the " << features(x)
                             << " features of 'x'";
  return success();
}

/// The parts that groups of features are cut into, or made of.
LogicalResult checkParts(Operation *op, Value whole, StringRef name, ValueRange parts, int64_t groups) {
  int64_t sum = 0;
  for (Value part : parts) {
    sum += features(part);
    if (groups <= 0 || features(part) % groups)
      return op->emitOpError() << "has " << groups << " groups, which do not divide the " << features(part)
                               << " features of a part";
  }
  return checkFeatures(op, whole, name, sum);
}

LogicalResult checkRepeated(Operation *op, Value one, Value all) {
  if (features(one) > 0 && features(all) % features(one) == 0)
    return success();
  return op->emitOpError() << "has " << features(all) << " features, which do not repeat " << features(one);
}

template <typename Op> LogicalResult checkSlopes(Op op) {
  std::optional<ArrayRef<float>> slopes = op.getSlopes();
  if (!slopes)
    return success();
  if (op.getSoftcap())
    return op.emitOpError("has slopes and a softcap; give one of them");
  if (slopes->size() != op.getHeads())
    return op.emitOpError() << "has " << slopes->size() << " slopes for " << op.getHeads()
                            << " heads; give one for each";
  if (!llvm::all_of(*slopes, [](float slope) { return std::isfinite(slope); }))
    return op.emitOpError("has a slope that is not finite");
  return success();
}

template <typename Op> LogicalResult checkAttentionGradient(Op op) {
  if (!op.getDkAccumulator() != !op.getDvAccumulator())
    return op.emitOpError("has one of its two accumulators; give both or none");
  if (failed(checkSoftcap(op, op.getSoftcap())))
    return failure();
  return checkHeads(op, op.getQ(), op.getK(), op.getV(), op.getO(), op.getLse(), op.getHeads(), op.getKvHeads());
}

LogicalResult checkXielu(Operation *op, const APFloat &epsilon) {
  if (epsilon.isFinite() && (epsilon.isNegative() || epsilon.isZero()))
    return success();
  return op->emitOpError() << "has an epsilon of " << epsilon.convertToFloat() << "; 0 or a number below is needed";
}

LogicalResult checkApproximation(Operation *op, uint64_t approximation) {
  return approximation <= 1 ? success() : op->emitOpError("has an approximation that is neither 0 (erf) nor 1 (tanh)");
}

LogicalResult checkGate(Operation *op, StringRef activation) {
  if (mebp::format::findActivation(activation))
    return success();
  return op->emitOpError() << "has activation '" << activation << "'; known are "
                           << mebp::format::listed(mebp::format::namesOf(mebp::format::activations), " and ");
}

} // namespace

void ParameterOp::build(OpBuilder &builder, OperationState &state, StringRef name, RankedTensorType type) {
  state.getOrAddProperties<Properties>().setSymName(builder.getStringAttr(name));
  state.getOrAddProperties<Properties>().setType(TypeAttr::get(type));
}
LogicalResult ParameterOp::verify() {
  if (getInitialBound() && (!getTrainable() || getData() || getStorage()))
    return emitOpError("has an 'initial_bound', from which only a trainable parameter starts that is stored nowhere");
  if (getGradientRank() && (!getTrainable() || getTensorType().getRank() != 2))
    return emitOpError("has a 'gradient_rank', which is of a trainable matrix alone");
  if (getStorage() && !getWeightFormat())
    return emitOpError() << "has the storage '" << *getStorage() << "'; known are " << mebp::format::weightFormatNames;
  return success();
}
std::optional<mebp::format::WeightFormat> ParameterOp::getWeightFormat() {
  return getStorage() ? mebp::format::parseWeightFormat(*getStorage()) : std::nullopt;
}
LogicalResult ReadParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter)
    return emitOpError() << "reads " << getParameterAttr() << ", which is not an nn.parameter";
  if (parameter.getType() != getType())
    return emitOpError() << "reads " << getParameterAttr() << " as " << getType() << ", but it is "
                         << parameter.getType();
  return success();
}
void LinearOp::build(OpBuilder &builder, OperationState &state, Type type, Value x, Value weight, Value bias,
                     Value addend, float alpha) {
  build(builder, state, type, x, weight, bias, addend, Value(), Value(), builder.getF32FloatAttr(alpha), FloatAttr());
}
LogicalResult LinearOp::verify() { return checkLow(*this, getLow(), getLowWeight()); }
void LinearInputGradientOp::build(OpBuilder &builder, OperationState &state, Type type, Value dy, Value weight,
                                  Value addend, float alpha) {
  build(builder, state, type, dy, weight, addend, Value(), Value(), builder.getF32FloatAttr(alpha), FloatAttr(),
        UnitAttr());
}
LogicalResult LinearInputGradientOp::verify() { return checkLow(*this, getLow(), getLowWeight()); }
LogicalResult RmsNormOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult RmsNormInputGradientOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult RmsNormWeightGradientOp::verify() { return checkNorm(*this, getX(), getResult()); }
LogicalResult LayerNormOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult LayerNormInputGradientOp::verify() { return checkNorm(*this, getX(), getWeight()); }
LogicalResult LayerNormWeightGradientOp::verify() { return checkNorm(*this, getX(), getResult()); }
LogicalResult RopeOp::verify() {
  int64_t size = getHeadDim();
  if (size <= 0 || features(getX()) % size)
    return emitOpError() << "has heads of " << size << ", which do not divide the " << features(getX())
                         << " features of 'x'";
  if (static_cast<int64_t>(getFrequencies().size()) * 2 > size)
    return emitOpError() << "has " << getFrequencies().size() << " frequencies; a head of " << size << " has room for "
                         << size / 2;
  return success();
}
LogicalResult PositionEmbeddingOp::verify() {
  int64_t positions = cast<RankedTensorType>(getWeight().getType()).getDimSize(0);
  int64_t first = getOffset().value_or(0);
  if (first >= 0 && (ShapedType::isDynamic(positions) || first < positions))
    return success();
  return emitOpError() << "begins with row " << first << " of a table of " << positions;
}
LogicalResult RepeatRowOp::verify() {
  int64_t rows = cast<RankedTensorType>(getWeight().getType()).getDimSize(0), row = getOffset();
  if (row >= 0 && (ShapedType::isDynamic(rows) || row < rows))
    return success();
  return emitOpError() << "takes row " << row << " of a table of " << rows;
}
LogicalResult AttentionOp::verify() {
  if (failed(checkCapacity(*this, {getK(), getV()}, getCapacity())) || failed(checkSoftcap(*this, getSoftcap())) ||
      failed(checkSlopes(*this)))
    return failure();
  return checkHeads(*this, getQ(), getK(), getV(), getOutput(), getLse(), getHeads(), getKvHeads());
}
LogicalResult AppendOp::verify() {
  if (getCapacity() <= 0)
    return emitOpError() << "has a capacity of " << getCapacity() << "; at least 1 is needed";
  return checkCapacity(*this, {getState(), getResult()}, getCapacity());
}
LogicalResult BidirectionalAttentionOp::verify() {
  if (failed(checkSoftcap(*this, getSoftcap())))
    return failure();
  return checkHeads(*this, getQ(), getK(), getV(), getOutput(), getLse(), getHeads(), getKvHeads());
}
LogicalResult AttentionGradientOp::verify() {
  return succeeded(checkSlopes(*this)) ? checkAttentionGradient(*this) : failure();
}
LogicalResult BidirectionalAttentionGradientOp::verify() { return checkAttentionGradient(*this); }
LogicalResult GeluOp::verify() { return checkApproximation(*this, getApproximation()); }
LogicalResult GeluGradientOp::verify() { return checkApproximation(*this, getApproximation()); }
LogicalResult SoftcapOp::verify() { return checkSoftcap(*this, getSoftcap()); }
LogicalResult SoftcapGradientOp::verify() { return checkSoftcap(*this, getSoftcap()); }
LogicalResult ClampOp::verify() { return checkBounds(*this); }
LogicalResult ClampGradientOp::verify() { return checkBounds(*this); }
LogicalResult XieluOp::verify() { return checkXielu(*this, getEpsilon()); }
LogicalResult XieluGradientOp::verify() { return checkXielu(*this, getEpsilon()); }
LogicalResult GatedOp::verify() { return checkGate(*this, getActivation()); }
LogicalResult GatedGradientOp::verify() { return checkGate(*this, getActivation()); }
LogicalResult SplitOp::verify() { return checkParts(*this, getX(), "x", getResults(), getGroups().value_or(1)); }
LogicalResult ConcatOp::verify() {
  return checkParts(*this, getResult(), "result", getParts(), getGroups().value_or(1));
}
LogicalResult RepeatOp::verify() { return checkRepeated(*this, getX(), getResult()); }
LogicalResult RepeatGradientOp::verify() { return checkRepeated(*this, getResult(), getDy()); }
LogicalResult LogProbabilityOp::verify() {
  return success(succeeded(checkHead(*this)) &&
                 succeeded(checkFeatures(*this, getLogProbabilities(), "log_probabilities", 1)) &&
                 succeeded(checkFeatures(*this, getEntropy(), "entropy", 1)));
}
LogicalResult LogProbabilityGradientOp::verify() {
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkFeatures(*this, getDx(), "dx", features(getX()))));
}
LogicalResult LogProbabilityWeightGradientOp::verify() {
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkLike(*this, getDweight(), "dweight", getWeight())));
}
LogicalResult LogProbabilityBiasGradientOp::verify() {
  if (!getBias())
    return emitOpError("has no 'bias', whose gradient it gives");
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkLike(*this, getDbias(), "dbias", getBias())));
}
LogicalResult LogProbabilityLowGradientOp::verify() {
  if (!getLow())
    return emitOpError("has no 'low', whose gradient it gives");
  return success(succeeded(checkHead(*this)) && succeeded(checkFeatures(*this, getCoefficients(), "coefficients", 1)) &&
                 succeeded(checkFeatures(*this, getDlow(), "dlow", features(getLow()))) &&
                 succeeded(checkLike(*this, getDlowWeight(), "dlow_weight", getLowWeight())));
}
LogicalResult LogProbabilityLogitsGradientOp::verify() {
  if (!getWeighted() != !getEntropyCoefficients())
    return emitOpError("needs 'weighted' and 'entropy_coefficients' together, or none of them");
  return success();
}
LogicalResult LogProbabilityTileOp::verify() {
  if (!getAccumulator() != !getNewAccumulator())
    return emitOpError("has an accumulator as operand or as result only; give both or none");
  return success();
}
LogicalResult LogProbabilityFromTilesOp::verify() {
  bool gradient = static_cast<bool>(getDx());
  if (gradient != static_cast<bool>(getCoefficients()) || gradient != static_cast<bool>(getAccumulator()) ||
      gradient != static_cast<bool>(getWeight()))
    return emitOpError("needs 'coefficients', 'accumulator', 'weight' and the result 'dx' together, or none of them");
  return success();
}
OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
