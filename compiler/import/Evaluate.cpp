// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Evaluate.h"

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;

static FailureOr<HostTensor> readConstantNode(const OnnxNode &node) {
  if (const onnx::Attribute *value = node.find("value"))
    return node.getFile().readConstant(value->t());
  if (const onnx::Attribute *value = node.find("value_float"))
    return HostTensor{Kind::Float, {}, {value->f()}};
  if (const onnx::Attribute *value = node.find("value_int"))
    return HostTensor{Kind::Integer, {}, {static_cast<double>(value->i())}};
  if (const onnx::Attribute *value = node.find("value_floats"))
    return HostTensor{Kind::Float, {value->floats_size()}, {value->floats().begin(), value->floats().end()}};
  if (const onnx::Attribute *value = node.find("value_ints"))
    return HostTensor{Kind::Integer, {value->ints_size()}, {value->ints().begin(), value->ints().end()}};
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
