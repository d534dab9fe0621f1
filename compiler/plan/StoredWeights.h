// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/exec/Exec.h"
#include "dialects/nn/Parameters.h"
#include "format/storage.h"

namespace mebp {

/// The parameter of the model that a value of a program is, or is a slice of, where `block` runs the program; null
/// where it is none.
nn::ParameterOp findParameter(exec::ProgramOp program, train::BlockOp block, mlir::Value value);

/// How a kernel finds a parameter: an adapter is f32.
format::Storage getStorage(nn::ParameterOp parameter);

} // namespace mebp
