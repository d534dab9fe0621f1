// SPDX-License-Identifier: Apache-2.0
//
// How an op says where it comes from: a NameLoc with its node's name, whose child is a NameLoc with the module path
// that the exporter recorded, where it did. What a gradient rule makes has the forward op's location, fused and marked.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace mebp::nn {

/// Of the node `name`; `scope` may be empty.
mlir::Location makeNodeLocation(mlir::MLIRContext *context, llvm::StringRef name, llvm::StringRef scope);
/// Of what a rule makes for the op that lies at `forward`.
mlir::Location makeGradientLocation(mlir::Location forward);

/// Empty where the location is of no node.
llvm::StringRef getNodeName(mlir::Location location);
/// The module path; empty without one.
llvm::StringRef getScope(mlir::Location location);

/// What people know it by: the module path or else the node's name, and whether it is of a gradient.
std::string describeLocation(mlir::Location location);
/// One line for people: the place, unless the message has it, then what is wrong.
std::string describeDiagnostic(mlir::Diagnostic &diagnostic);

} // namespace mebp::nn
