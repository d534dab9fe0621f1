// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "dialects/train/TrainDialect.h.inc"
#include "dialects/train/TrainEnums.h.inc"
namespace mebp::train {
class YieldOp;
}
#define GET_OP_CLASSES
#include "dialects/train/TrainOps.h.inc"

namespace mebp::train {

/// What an argument or result of a block's function is: its `train.role`. Of a parameter or a gradient, `parameter` is
/// the number of the block's parameter that it stands for: its `train.parameter`.
std::optional<Role> getArgumentRole(mlir::func::FuncOp function, unsigned index);
std::optional<Role> getResultRole(mlir::func::FuncOp function, unsigned index);
void setArgumentRole(mlir::func::FuncOp function, unsigned index, Role role, std::optional<int64_t> parameter = {});
void setResultRole(mlir::func::FuncOp function, unsigned index, Role role, std::optional<int64_t> parameter = {});
unsigned getArgumentParameter(mlir::func::FuncOp function, unsigned index);
unsigned getResultParameter(mlir::func::FuncOp function, unsigned index);

/// Whether an argument is a parameter that is trained: its `train.trainable`.
bool isTrainable(mlir::func::FuncOp function, unsigned argument);
void setTrainable(mlir::func::FuncOp function, unsigned argument);

/// Whether what has this role goes into a program, or comes out of one.
bool isInput(Role role);
bool isOutput(Role role);
/// Whether it has a parameter's number.
inline bool isNumbered(Role role) { return role == Role::Parameter || role == Role::Gradient; }
/// Every use, in order.
constexpr ProgramUse programUses[] = {ProgramUse::Forward, ProgramUse::Backward, ProgramUse::Objective,
                                      ProgramUse::Loss, ProgramUse::Logits};
/// Whether a session that needs no gradients leaves it out.
inline bool givesGradients(ProgramUse use) { return use == ProgramUse::Backward || use == ProgramUse::Objective; }

} // namespace mebp::train
