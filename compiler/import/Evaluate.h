// SPDX-License-Identifier: Apache-2.0
//
// evaluateNode and its three parts: ops that compute element by element, ops that move elements, and ops that reduce.
#pragma once

#include "compiler/import/ResultShapes.h"

namespace mebp {

using TensorRefs = llvm::ArrayRef<const HostTensor *>;

/// Computes a node whose inputs are all constants; an absent input is null. Fails with a diagnostic.
mlir::FailureOr<llvm::SmallVector<HostTensor, 1>> evaluateNode(const OnnxNode &node, TensorRefs inputs);

/// Each returns nullopt where the op is not of its kind, or where its inputs do not fit together.
std::optional<HostTensor> evaluateElementwise(const OnnxNode &node, TensorRefs inputs);
std::optional<llvm::SmallVector<HostTensor, 1>> evaluateMovement(const OnnxNode &node, TensorRefs inputs);
std::optional<HostTensor> evaluateReduction(const OnnxNode &node, TensorRefs inputs);

/// Calls `visit(index of the result, offset for each of `strides`)` for every element of `shape`, row-major.
template <typename Visit>
void forEachElement(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Extents> strides, Visit visit) {
  int64_t count = *elementCount(shape);
  Extents index(shape.size(), 0);
  llvm::SmallVector<int64_t, 3> offsets(strides.size(), 0);
  for (int64_t element = 0; element < count; ++element) {
    visit(element, llvm::ArrayRef<int64_t>(offsets));
    for (size_t axis = shape.size(); axis-- > 0;) {
      for (size_t operand = 0; operand < strides.size(); ++operand)
        offsets[operand] += strides[operand][axis];
      if (++index[axis] < shape[axis])
        break;
      for (size_t operand = 0; operand < strides.size(); ++operand)
        offsets[operand] -= strides[operand][axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

} // namespace mebp
