// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Evaluate.h"

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;

static FailureOr<HostTensor> readConstantNode(const OnnxNode &node) {
  for (const onnx::Attribute &attribute : node.getProto().attribute()) {
    if (attribute.name() == "value")
      return node.getFile().readConstant(attribute.t());
    if (attribute.name() == "value_float")
      return HostTensor{Kind::Float, {}, {attribute.f()}};
    if (attribute.name() == "value_int")
      return HostTensor{Kind::Integer, {}, {static_cast<double>(attribute.i())}};
    if (attribute.name() == "value_floats")
      return HostTensor{Kind::Float, {attribute.floats_size()}, {attribute.floats().begin(), attribute.floats().end()}};
    if (attribute.name() == "value_ints")
      return HostTensor{Kind::Integer, {attribute.ints_size()}, {attribute.ints().begin(), attribute.ints().end()}};
  }
  return node.emitError() << "has no value that is read here; export without it";
}

FailureOr<SmallVector<HostTensor, 1>> mebp::evaluateNode(const OnnxNode &node, TensorRefs inputs) {
  if (node.getOp() == "Constant") {
    auto value = readConstantNode(node);
    if (failed(value))
      return failure();
    return SmallVector<HostTensor, 1>{std::move(*value)};
  }
  if (auto moved = evaluateMovement(node, inputs))
    return std::move(*moved);
  for (auto *evaluate : {evaluateElementwise, evaluateReduction})
    if (auto result = evaluate(node, inputs))
      return SmallVector<HostTensor, 1>{std::move(*result)};
  return node.emitError() << "of constants is not supported, or its inputs do not fit together; fold it away before "
                             "export";
}
