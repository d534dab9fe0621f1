// SPDX-License-Identifier: Apache-2.0
//
// Nodes that compute each element of an activation by itself.
#include "compiler/import/GraphImporter.h"
#include "compiler/import/ResultShapes.h"

#include <cmath>

using namespace mlir;
using namespace mebp;

LogicalResult GraphImporter::importUnary(const OnnxNode &node, Entries &inputs) {
  return importElementwise(node, inputs, 1);
}
LogicalResult GraphImporter::importBinary(const OnnxNode &node, Entries &inputs) {
  return importElementwise(node, inputs, 2);
}
LogicalResult GraphImporter::importWhere(const OnnxNode &node, Entries &inputs) {
  return importElementwise(node, inputs, 3);
}

LogicalResult GraphImporter::importElementwise(const OnnxNode &node, Entries &inputs, size_t arity) {
  SmallVector<Value> values;
  if (failed(getValues(node, inputs, values)))
    return failure();
  // The largest of one, which torch writes where it brings indices to one shape.
  if (values.size() == 1 && (node.getOp() == "Max" || node.getOp() == "Min")) {
    define(node.getProto().output(0), values[0]);
    return success();
  }
  std::optional<Extents> shape = Extents();
  for (Entry *entry : inputs)
    shape = shape ? broadcastShape(*shape, getShape(*entry)) : shape;
  if (!shape || values.size() != arity)
    return node.emitMismatch();
  Type element = yieldsBoolean(node.getOp()) ? builder.getI1Type() : getType(*inputs.back()).getElementType();
  define(node.getProto().output(0), emit(node, node.getOp(), values, *shape, element));
  return success();
}

/// Clip(x) {lower, upper}: those bounds that there are.
LogicalResult GraphImporter::importClip(const OnnxNode &node, Entries &inputs) {
  SmallVector<NamedAttribute> bounds;
  for (auto [i, name] : {std::pair<size_t, StringRef>{1, "lower"}, {2, "upper"}}) {
    const HostTensor *bound = getConstant(inputs, i);
    if (!bound && i < inputs.size() && inputs[i])
      return node.emitError() << "has a bound that depends on an activation, which is not supported";
    if (bound && bound->data.size() != 1)
      return node.emitMismatch();
    if (bound && std::isfinite(bound->data[0]))
      bounds.push_back(builder.getNamedAttr(name, builder.getF32FloatAttr(static_cast<float>(bound->data[0]))));
  }
  Value value = getValue(node, *inputs[0]);
  if (!value)
    return failure();
  if (!bounds.empty())
    value = emit(node, "Clip", value, getShape(*inputs[0]), builder.getF32Type(), bounds);
  define(node.getProto().output(0), value);
  return success();
}
