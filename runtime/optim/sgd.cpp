// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

namespace mebp {

namespace {

// torch.optim.SGD without momentum: p -= lr (g + decay p).
class Sgd final : public Optimizer {
public:
  uint32_t stateArrays() const override { return 0; }
  void update(const OptimizerOptions &options, uint64_t, float *parameters, const float *gradient, float *const *,
              uint64_t count) const override {
    auto rate = static_cast<float>(options.learningRate), decay = static_cast<float>(options.weightDecay);
    for (uint64_t i = 0; i < count; ++i)
      parameters[i] -= rate * (gradient[i] + decay * parameters[i]);
  }
};

} // namespace

std::unique_ptr<Optimizer> makeSgd() { return std::make_unique<Sgd>(); }

} // namespace mebp
