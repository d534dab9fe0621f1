// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <cmath>

namespace mebp {

// Of a NaN, the sign means nothing.
static double printable(double number) { return std::isnan(number) ? std::fabs(number) : number; }

// Written so that a NaN fails, too.
Status checkLearningRate(double rate) {
  if (rate >= 0 && std::isfinite(rate))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the learning rate %g is not a finite number of at least 0", printable(rate));
}

Status checkOptions(const mebp_session_options &options) {
  if (!format::findOptimizer(options.optimizer))
    return failure(MEBP_UNSUPPORTED, "optimizer number %d is not in this build; choose %s",
                   static_cast<int>(options.optimizer), format::listOptimizers().c_str());
  if (Status status = checkLearningRate(options.learning_rate); !status.ok())
    return status;
  if (!(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1))
    return failure(MEBP_INVALID_ARGUMENT, "betas %g and %g are not in [0, 1)", printable(options.beta1),
                   printable(options.beta2));
  if (!(options.epsilon >= 0 && std::isfinite(options.epsilon) && options.weight_decay >= 0 &&
        std::isfinite(options.weight_decay)))
    return failure(MEBP_INVALID_ARGUMENT, "epsilon %g and weight decay %g are not finite numbers of at least 0",
                   printable(options.epsilon), printable(options.weight_decay));
  if (options.optimizer != MEBP_MEZO)
    return Status();
  if (!(options.perturbation > 0 && std::isfinite(options.perturbation)))
    return failure(MEBP_INVALID_ARGUMENT, "the perturbation %g is not a finite number above 0",
                   printable(options.perturbation));
  if (options.clip > 0)
    return failure(MEBP_INVALID_ARGUMENT, "MeZO has no gradient that could be clipped; leave out clip");
  return Status();
}

OptimizerOptions optionsOf(const mebp_session_options &options) {
  double epsilon = options.optimizer == MEBP_MEZO ? options.perturbation : options.epsilon;
  return {options.learning_rate, options.beta1, options.beta2, epsilon, options.weight_decay};
}

double squareOf(const float *gradient, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += static_cast<double>(gradient[i]) * gradient[i];
  return sum;
}

Update updateOf(mebp_optimizer optimizer) {
  switch (optimizer) {
  case MEBP_ADAMW:
    return updateAdamw;
  case MEBP_SGD:
  case MEBP_MEZO:
    return updateSgd;
  }
  return nullptr;
}

} // namespace mebp
