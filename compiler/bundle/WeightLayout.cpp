// SPDX-License-Identifier: Apache-2.0
#include "compiler/bundle/WeightLayout.h"

#include "dialects/train/Train.h"
#include "format/container.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace mebp {

SmallVector<nn::ParameterOp> layOutWeights(ModuleOp module, format::Bundle &bundle) {
  SmallVector<nn::ParameterOp> order;
  const SymbolTable symbols(module); // a model has hundreds of parameters
  llvm::StringSet<> seen;
  uint64_t offset = 0;
  auto take = [&](uint64_t bytes) {
    uint64_t begin = format::alignUp(offset);
    offset = begin + bytes;
    return begin;
  };
  auto add = [&](nn::ParameterOp parameter) {
    if (!parameter.getWeightFormat() || !seen.insert(parameter.getSymName()).second)
      return;
    RankedTensorType type = parameter.getTensorType();
    uint64_t rows = type.getRank() == 1 ? 1 : type.getDimSize(0), columns = type.getShape().back();
    format::Storage storage = format::storageOf(*parameter.getWeightFormat());
    uint64_t groups = groupsOf(storage, columns);
    format::Weight &weight = *bundle.add_weights();
    weight.set_name(parameter.getSymName().str());
    weight.set_rows(rows);
    weight.set_columns(columns);
    weight.set_element(format::elementOf(storage));
    weight.set_group(groups ? format::groupSize : 0);
    weight.set_data_offset(take(rows * rowBytesOf(storage, columns)));
    weight.set_scales_offset(groups ? take(rows * groups * 2) : 0);
    weight.set_minima_offset(groups ? take(rows * groups * 2) : 0);
    weight.set_transposed(parameter.getTransposed());
    weight.set_rank(type.getRank());
    for (int64_t extent : parameter.getShape().value_or(ArrayRef<int64_t>()))
      weight.add_shape(static_cast<int32_t>(extent));
    if (auto aliases = parameter.getAliases())
      for (auto alias : aliases->getAsRange<StringAttr>())
        weight.add_aliases(alias.getValue().str());
    order.push_back(parameter);
  };
  for (auto block : module.getOps<train::BlockOp>()) {
    offset = llvm::alignTo(offset, format::regionAlignment);
    for (auto name : block.getParameters().getAsRange<FlatSymbolRefAttr>())
      add(symbols.lookup<nn::ParameterOp>(name.getValue()));
  }
  // Numbers that no block binds lie behind them.
  offset = llvm::alignTo(offset, format::regionAlignment);
  for (auto parameter : module.getOps<nn::ParameterOp>())
    if (parameter.getNumber())
      add(parameter);
  bundle.set_weights_bytes(llvm::alignTo(offset, format::regionAlignment));
  return order;
}

uint64_t countWeightBytes(ModuleOp module) {
  format::Bundle bundle;
  (void)layOutWeights(module, bundle);
  return bundle.weights_bytes();
}

} // namespace mebp
