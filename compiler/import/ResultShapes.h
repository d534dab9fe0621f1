// SPDX-License-Identifier: Apache-2.0
//
// The shapes that ops of ONNX give, whether of constants, which Evaluate*.cpp computes, or of activations, which
// ImportNodes.cpp keeps as ops. nullopt: what a node is given does not fit together.
#pragma once

#include "compiler/import/OnnxNode.h"

namespace mebp {

/// Reshape, Unsqueeze, Squeeze, Flatten: another shape for the same elements in the same order.
bool isView(llvm::StringRef op);
/// The shape that a view op gives; `request` is its second input, null where it has none.
std::optional<Extents> viewShape(const OnnxNode &node, llvm::ArrayRef<int64_t> shape, const HostTensor *request);

/// Transpose: which axis each axis of the result is; all in reverse where the node does not say.
std::optional<llvm::SmallVector<int64_t>> permutation(const OnnxNode &node, int64_t rank);

/// Concat of one shape or more along `axis`, which the first has.
std::optional<Extents> concatenatedShape(llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes, int64_t axis);

/// Split, SplitToSequence: the sizes along its axis; `request` is its second input, null where it has none.
std::optional<llvm::SmallVector<int64_t>> splitSizes(const OnnxNode &node, int64_t extent, const HostTensor *request);

/// Gather along `axis`, which `shape` has.
Extents gatheredShape(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> indices, int64_t axis);

/// MatMul, of two matrices or batches of them.
std::optional<Extents> productShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// Comparisons and logic.
bool yieldsBoolean(llvm::StringRef op);

} // namespace mebp
