// SPDX-License-Identifier: Apache-2.0
//
// What a graph reads: ids, and what other exporters put beside them. Rows are whole sequences from position 0 on, so
// attention_mask is bound to ones, position_ids to 0, 1, 2, ... and token_type_ids to zeros: a mask then leaves causal
// attention, and whatever is padded is at a row's end, where no counted token sees it. Other inputs are refused.
#include "compiler/Options.h"
#include "compiler/import/GraphImporter.h"
#include "compiler/import/MaterializeConstant.h"

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;

static constexpr StringRef kMask = "attention_mask", kPositions = "position_ids", kTokenTypes = "token_type_ids";

static bool isInteger(const onnx::TensorType &type) {
  return type.elem_type() == element::i64 || type.elem_type() == element::i32;
}

LogicalResult GraphImporter::declareInputs() {
  const onnx::ValueInfo *ids = nullptr;
  SmallVector<const onnx::ValueInfo *> bound;
  for (const onnx::ValueInfo &input : file.getGraph().input()) {
    Entry &entry = entries[input.name()];
    if (entry.initializer || entry.uses == 0)
      continue;
    if (llvm::is_contained({kMask, kPositions, kTokenTypes}, input.name())) {
      bound.push_back(&input);
      continue;
    }
    if (ids)
      return file.emitError() << "reads '" << ids->name() << "' and '" << input.name()
                              << "'; export a graph of input_ids, with or without attention_mask and position_ids, and "
                              << "without a cache";
    ids = &input;
  }
  if (!ids)
    return file.emitError() << "has no input that is used; export a graph of input_ids";
  const onnx::TensorType &type = ids->type().tensor_type();
  if (type.shape().dim_size() != 2 || !isInteger(type))
    return file.emitError() << "input '" << ids->name() << "' is not integers [batch, sequence]; export a graph of "
                            << "input_ids";
  auto bind = [&](int axis, StringRef key, int64_t otherwise) {
    const onnx::Dimension &dimension = type.shape().dim(axis);
    return dimension.has_dim_value() ? dimension.dim_value() : file.getMetadataNumber(key).value_or(otherwise);
  };
  StepShape otherwise;           // what a graph of unknown sizes is read at
  constexpr int64_t most = 2048; // for its masks are tables of sequence x sequence
  batch = bind(0, "mebp.batch", otherwise.batch);
  sequence = bind(1, "mebp.sequence", std::clamp(wanted.value_or(0), otherwise.sequence, most));
  // What depends on positions is recognised by how it goes on from one to the next.
  if (batch < 1 || sequence < 4)
    return file.emitError() << "input '" << ids->name() << "' is [" << batch << ", " << sequence
                            << "]; export with a sequence of at least 4";
  if (!fitsTable({batch, sequence, sequence}))
    return file.emitError() << "input '" << ids->name() << "' is [" << batch << ", " << sequence
                            << "], too large to import; export a shorter sequence and give mebpc --seq-len";

  builder.setInsertionPointToEnd(module->getBody());
  Type idsType = tensorType(&context, {batch, sequence}, Kind::Integer);
  main = func::FuncOp::create(builder, file.getLocation(), "main", builder.getFunctionType({idsType}, {}));
  Block *body = main.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  define(ids->name(), body->getArgument(0));
  for (const onnx::ValueInfo *input : bound)
    if (failed(bindInput(*input)))
      return failure();
  return success();
}

LogicalResult GraphImporter::bindInput(const onnx::ValueInfo &input) {
  const onnx::TensorType &type = input.type().tensor_type();
  const int64_t sizes[] = {batch, sequence};
  bool fits = type.shape().dim_size() == 2 &&
              (isInteger(type) || (type.elem_type() == element::boolean && input.name() == kMask));
  for (int axis = 0; fits && axis < 2; ++axis) {
    const onnx::Dimension &dimension = type.shape().dim(axis);
    // Positions may be one row for all of the batch.
    fits =
        !dimension.has_dim_value() || dimension.dim_value() == sizes[axis] || (axis == 0 && dimension.dim_value() == 1);
  }
  if (!fits)
    return file.emitError() << "input '" << input.name() << "' is not integers [" << batch << ", " << sequence
                            << "], one for each token; export a graph of input_ids alone";
  const onnx::Dimension &rows = type.shape().dim(0);
  HostTensor constant;
  constant.kind = type.elem_type() == element::boolean ? Kind::Boolean : Kind::Integer;
  constant.shape = {rows.has_dim_value() ? rows.dim_value() : batch, sequence};
  constant.data.resize(constant.shape[0] * sequence);
  for (size_t at = 0; at < constant.data.size(); ++at)
    constant.data[at] = input.name() == kMask ? 1 : input.name() == kPositions ? static_cast<double>(at % sequence) : 0;
  define(input.name(), std::move(constant));
  return success();
}
