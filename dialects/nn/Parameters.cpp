// SPDX-License-Identifier: Apache-2.0
//
// Parameters: what their ops check.
#include "dialects/nn/Parameters.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mebp::nn;

#define GET_OP_CLASSES
#include "dialects/nn/NNParameterOps.cpp.inc"

void NNDialect::registerParameters() {
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/NNParameterOps.cpp.inc"
      >();
}

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
  for (Attribute blocks : getBlocks().value_or(ArrayAttr::get(getContext(), {}))) {
    auto place = dyn_cast<ExternalDataAttr>(blocks);
    if (!place || !mebp::format::findByName(mebp::format::fileTypes, place.getElement()) ||
        place.getElement() != cast<ExternalDataAttr>(getBlocks()->getValue().front()).getElement())
      return emitOpError() << "has blocks " << blocks << ", which are of no known type, or not of one";
  }
  return success();
}
std::optional<mebp::format::WeightFormat> ParameterOp::getWeightFormat() {
  return getStorage() ? mebp::format::parseWeightFormat(*getStorage()) : std::nullopt;
}
const mebp::format::FileType *ParameterOp::getFileType() {
  if (!getBlocks() || getBlocks()->empty())
    return nullptr;
  auto place = cast<ExternalDataAttr>(getBlocks()->getValue().front());
  return mebp::format::findByName(mebp::format::fileTypes, place.getElement());
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
