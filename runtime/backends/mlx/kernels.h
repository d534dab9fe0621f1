// SPDX-License-Identifier: Apache-2.0
//
// The kernels of docs/kernels.md, forward beside backward. Each file's table, as registry.cpp searches them:
#pragma once

#include "runtime/backends/mlx/call.h"

namespace mebp::mlx {

extern const KernelTable activationKernels;
extern const KernelTable attentionKernels;
extern const KernelTable convolutionKernels;
extern const KernelTable deltaKernels;
extern const KernelTable elementwiseKernels;
extern const KernelTable expertKernels;
extern const KernelTable linearKernels;
extern const KernelTable lossKernels;
extern const KernelTable normKernels;
extern const KernelTable positionKernels;
extern const KernelTable stateKernels;

// Attention of the rows of a step to what is in states.
void attendToState(Call &call);

// Attention by MLX's kernel for the whole of it, where that can be: where nobody asks for the log-sum-exp, by whole
// sequences without a window. Nothing where the device has none for these sizes; tests ask for what MLX
// then computes instead, which is not planned for.
std::optional<array> fusedAttention(const Call &call, bool onlyByItsKernel = true);

} // namespace mebp::mlx
