// SPDX-License-Identifier: Apache-2.0
//
// Ranges, sums and products of constants, and the entry point of evaluation.
#include "compiler/import/Evaluate.h"

#include <cmath>

using namespace mlir;
using namespace mebp;

using Kind = HostTensor::Kind;

static std::optional<HostTensor> range(TensorRefs inputs) {
  if (inputs.size() != 3 || llvm::any_of(inputs, [](const HostTensor *t) { return !t || t->data.size() != 1; }))
    return std::nullopt;
  double start = inputs[0]->data[0], limit = inputs[1]->data[0], step = inputs[2]->data[0];
  double count = std::fmax(std::ceil((limit - start) / step), 0);
  if (step == 0 || !(count <= kLargestTable))
    return std::nullopt;
  HostTensor result{inputs[0]->kind, {static_cast<int64_t>(count)}, {}};
  for (int64_t i = 0; i < result.shape[0]; ++i)
    result.data.push_back(start + static_cast<double>(i) * step);
  return result;
}

static std::optional<HostTensor> multiplyMatrices(TensorRefs inputs) {
  if (inputs.size() != 2 || !inputs[0] || !inputs[1])
    return std::nullopt;
  HostTensor a = inputs[0]->evaluated(), b = inputs[1]->evaluated();
  auto shape = productShape(a.shape, b.shape);
  if (!shape)
    return std::nullopt;
  int64_t rows = a.shape[a.shape.size() - 2], inner = a.shape.back(), columns = b.shape.back();
  Extents work = *shape;
  work.push_back(inner);
  if (!fitsTable(work))
    return std::nullopt;
  HostTensor result{a.kind, *shape, {}};
  result.data.resize(*elementCount(*shape));
  auto batch = ArrayRef(*shape).drop_back(2);
  Extents aStrides = alignedStrides(ArrayRef(a.shape).drop_back(2), batch.size());
  Extents bStrides = alignedStrides(ArrayRef(b.shape).drop_back(2), batch.size());
  forEachElement(batch, {aStrides, bStrides}, [&](int64_t matrix, ArrayRef<int64_t> at) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < inner; ++i)
          sum +=
              a.data[at[0] * rows * inner + row * inner + i] * b.data[at[1] * inner * columns + i * columns + column];
        result.data[(matrix * rows + row) * columns + column] = sum;
      }
  });
  return result;
}

static std::optional<HostTensor> sumUp(const OnnxNode &node, TensorRefs inputs) {
  if (inputs.size() != 2 || !inputs[0] || !inputs[1] || inputs[1]->data.size() != 1 || node.getInteger("reverse", 0) ||
      node.getInteger("exclusive", 0))
    return std::nullopt;
  HostTensor result = inputs[0]->evaluated();
  auto axis = normalizedAxis(inputs[1]->integers()[0], result.shape.size());
  if (!axis)
    return std::nullopt;
  int64_t inner = *elementCount(ArrayRef(result.shape).drop_front(*axis + 1)), extent = result.shape[*axis];
  for (int64_t at = 0; at < static_cast<int64_t>(result.data.size()); ++at)
    if (at / inner % extent > 0)
      result.data[at] += result.data[at - inner];
  return result;
}

static std::optional<HostTensor> reduceAll(const OnnxNode &node, TensorRefs inputs) {
  // A table is reduced to one number only where a graph computes a length.
  HostTensor source = inputs[0]->evaluated();
  bool wholeTensor = source.shape.size() <= 1 && node.getInteger("noop_with_empty_axes", 0) == 0;
  if (!wholeTensor || source.data.empty())
    return std::nullopt;
  double value = source.data[0];
  for (size_t i = 1; i < source.data.size(); ++i)
    value = node.getOp() == "ReduceMax"   ? std::fmax(value, source.data[i])
            : node.getOp() == "ReduceMin" ? std::fmin(value, source.data[i])
            : node.getOp() == "ReduceSum" ? value + source.data[i]
                                          : value * source.data[i];
  HostTensor result{source.kind, {}, {value}};
  if (node.getInteger("keepdims", 1))
    result.shape.assign(source.shape.size(), 1);
  return result;
}

std::optional<HostTensor> mebp::evaluateReduction(const OnnxNode &node, TensorRefs inputs) {
  StringRef op = node.getOp();
  if (inputs.empty())
    return std::nullopt;
  if (op == "Range")
    return range(inputs);
  if (op == "MatMul")
    return multiplyMatrices(inputs);
  if (op == "CumSum")
    return sumUp(node, inputs);
  if (llvm::is_contained({"ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"}, op) && inputs[0])
    return reduceAll(node, inputs);
  return std::nullopt;
}
