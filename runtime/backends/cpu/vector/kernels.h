// SPDX-License-Identifier: Apache-2.0
//
// The kernels that are worth vectors and threads. Work is split by shapes alone, never by the number of threads, so
// results are bitwise the same on any number of them. Each file's table, as registry.cpp searches them:
#pragma once

#include "runtime/backends/cpu/kernel/kernel.h"

namespace mebp::cpu::vector {

// Calls the function of that name that Highway has compiled for this CPU.
#define MEBP_BEST(function)                                                                                            \
  [](const Call &call, const Context &context) { HWY_DYNAMIC_DISPATCH(function)(call, context); }

extern const KernelTable activationKernels;
extern const KernelTable attentionKernels;
extern const KernelTable attentionGradientKernels;
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

} // namespace mebp::cpu::vector
