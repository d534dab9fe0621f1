// SPDX-License-Identifier: Apache-2.0
//
// From model.onnx to the nn dialect.
//
//   importOnnx       reads the file; constants and positions are evaluated, every other node becomes an nn.onnx
//   mebp-raise       finds norms, rotary embeddings, activations, linear layers and attention in nn.onnx nodes
//   mebp-flatten-tokens  makes kernels of them, on [batch, sequence, features] of any batch and sequence
#pragma once

#include "dialects/nn/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

namespace mebp {

/// The module of an ONNX file, with @main at the file's shapes; null after one diagnostic. Its attributes: mebp.name,
/// mebp.batch, mebp.sequence, mebp.vocabulary, and mebp.sequence_limit where the file knows the longest sequence that
/// it is right for. A graph of unknown length is read at `sequence`, up to 2,048 tokens: a window shows itself only in
/// a mask that is longer.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(llvm::StringRef path, mlir::MLIRContext &context,
                                             std::optional<int64_t> sequence = {});

/// Takes importOnnx's module to nn kernels.
void buildImportPipeline(mlir::OpPassManager &manager);

} // namespace mebp
