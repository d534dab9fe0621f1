// SPDX-License-Identifier: Apache-2.0
//
// The kernels of docs/kernels.md, forward beside backward. Each file's table, as registry.cpp searches them:
#pragma once

#include "runtime/backends/mlx/call.h"

namespace mebp::mlx {

extern const KernelTable activationKernels;
extern const KernelTable attentionKernels;
extern const KernelTable elementwiseKernels;
extern const KernelTable linearKernels;
extern const KernelTable lossKernels;
extern const KernelTable normKernels;
extern const KernelTable positionKernels;
extern const KernelTable stateKernels;

// Attention of the rows of a step to what is in states.
void attendToState(Call &call);

} // namespace mebp::mlx
