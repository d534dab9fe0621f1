// SPDX-License-Identifier: Apache-2.0
//
// The naive kernels: single-threaded, accumulating in double, one for every row of docs/kernels.md. They define what
// is right; every other family is tested against them. Each file's table, as registry.cpp searches them:
#pragma once

#include "runtime/backends/cpu/kernel/kernel.h"

namespace mebp::cpu::reference {

extern const KernelTable activationKernels;
extern const KernelTable attentionKernels;
extern const KernelTable convolutionKernels;
extern const KernelTable deltaKernels;
extern const KernelTable elementwiseKernels;
extern const KernelTable embeddingKernels;
extern const KernelTable expertKernels;
extern const KernelTable linearKernels;
extern const KernelTable lossKernels;
extern const KernelTable normKernels;
extern const KernelTable parameterGradientKernels;
extern const KernelTable ropeKernels;
extern const KernelTable routeKernels;

// For heads that are too wide for the vectors' workspace.
void attention(const Call &call, const Context &context);
void attentionGradient(const Call &call, const Context &context);
void bidirectionalAttention(const Call &call, const Context &context);
void bidirectionalAttentionGradient(const Call &call, const Context &context);

} // namespace mebp::cpu::reference
