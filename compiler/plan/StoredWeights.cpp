// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/StoredWeights.h"

using namespace mlir;

namespace mebp {

nn::ParameterOp findParameter(exec::ProgramOp program, train::BlockOp block, Value value) {
  std::optional<StringRef> name = exec::getParameter(program, value);
  FlatSymbolRefAttr symbol = name && block ? block.getParameter(*name) : FlatSymbolRefAttr();
  return symbol ? SymbolTable::lookupNearestSymbolFrom<nn::ParameterOp>(block, symbol) : nn::ParameterOp();
}

format::Storage getStorage(nn::ParameterOp parameter) {
  return parameter.getWeightFormat() ? format::storageOf(*parameter.getWeightFormat()) : format::Storage::F32;
}

} // namespace mebp
