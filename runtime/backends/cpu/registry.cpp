// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/cpu/registry.h"

#include "runtime/backends/cpu/reference/kernels.h"
#include "runtime/backends/cpu/vector/kernels.h"

namespace mebp::cpu {

static Kernel findReference(std::string_view name) {
  using namespace reference;
  return findKernelIn<Kernel>({&activationKernels, &attentionKernels, &convolutionKernels, &deltaKernels,
                               &elementwiseKernels, &embeddingKernels, &expertKernels, &linearKernels, &lossKernels,
                               &normKernels, &parameterGradientKernels, &ropeKernels, &routeKernels},
                              name);
}

static Kernel findVector(std::string_view name) {
  using namespace vector;
  return findKernelIn<Kernel>({&activationKernels, &attentionKernels, &attentionGradientKernels, &convolutionKernels,
                               &deltaKernels, &elementwiseKernels, &embeddingKernels, &expertKernels, &linearKernels,
                               &lossKernels, &normKernels, &parameterGradientKernels, &ropeKernels},
                              name);
}

Kernel findKernel(std::string_view name, InstructionSet set) {
  Kernel kernel = set == InstructionSet::Reference ? nullptr : findVector(name);
  return kernel ? kernel : findReference(name);
}

} // namespace mebp::cpu
