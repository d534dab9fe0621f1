// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/mlx/kernels.h"

namespace mebp::mlx {

Kernel findKernel(const std::string &name) {
  return findKernelIn<Kernel>({&activationKernels, &attentionKernels, &convolutionKernels, &deltaKernels,
                               &elementwiseKernels, &expertKernels, &linearKernels, &lossKernels, &normKernels,
                               &positionKernels, &stateKernels},
                              name);
}

} // namespace mebp::mlx
