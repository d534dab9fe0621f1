// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

namespace mebp {

// torch.optim.SGD without momentum: p -= lr (g + decay p).
void updateSgd(const OptimizerOptions &options, uint64_t, float *parameters, const float *gradient, float *const *,
               uint64_t count) {
  auto rate = static_cast<float>(options.learningRate), decay = static_cast<float>(options.weightDecay);
  for (uint64_t i = 0; i < count; ++i)
    parameters[i] -= rate * (gradient[i] + decay * parameters[i]);
}

} // namespace mebp
