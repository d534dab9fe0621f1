// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/session_options.h"

#include <cmath>

#include "format/optimizers.h"
#include "runtime/optim/optimizer.h"

namespace mebp {

// Of a NaN, the sign means nothing.
static double printable(double number) { return std::isnan(number) ? std::fabs(number) : number; }

// Written so that a NaN fails, too.
static bool isFiniteFromZero(double number) { return number >= 0 && std::isfinite(number); }

Status checkLearningRate(double rate) {
  if (isFiniteFromZero(rate))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT, "the learning rate %g is not a finite number of at least 0", printable(rate));
}

static bool takes(const Optimizer &optimizer, const OptimizerOption &option) {
  for (const OptionDefault &taken : optimizer.options)
    if (taken.option == &option)
      return true;
  return false;
}

// "a, b or c", which take the option.
static std::string listTaking(const OptimizerOption &option) {
  std::string list, last;
  for (const format::OptimizerTraits &traits : format::optimizers) {
    if (!takes(*findOptimizer(traits.number), option))
      continue;
    list += (list.empty() || last.empty() ? "" : ", ") + last;
    last = traits.name;
  }
  return list.empty() ? last : list + " or " + last;
}

static Status checkOption(const Optimizer &optimizer, const OptimizerOption &option, double given) {
  if (given == option.notGiven)
    return Status();
  if (!takes(optimizer, option))
    return failure(MEBP_INVALID_ARGUMENT, "%s has no option '%s'; leave it out, or choose %s", optimizer.name,
                   option.called, listTaking(option).c_str());
  if (option.isWhole && isFiniteFromZero(given) && given != std::floor(given))
    return failure(MEBP_INVALID_ARGUMENT, "%s %g is not a whole number", option.name, given);
  if (isFiniteFromZero(given) && given < option.below && (given > 0 || option.mayBeZero))
    return Status();
  if (std::isfinite(option.below))
    return failure(MEBP_INVALID_ARGUMENT, "%s %g is not at least 0 and below %g", option.name, printable(given),
                   option.below);
  return failure(MEBP_INVALID_ARGUMENT, "%s %g is not a finite number %s 0", option.name, printable(given),
                 option.mayBeZero ? "of at least" : "above");
}

Status checkOptions(const mebp_session_options &options) {
  const Optimizer *optimizer = findOptimizer(options.optimizer);
  if (!optimizer)
    return failure(MEBP_UNSUPPORTED, "optimizer number %d is not in this build; choose %s",
                   static_cast<int>(options.optimizer), format::listOptimizers().c_str());
  if (Status status = checkLearningRate(options.learning_rate); !status.ok())
    return status;
  if (!isFiniteFromZero(options.weight_decay))
    return failure(MEBP_INVALID_ARGUMENT, "the weight decay %g is not a finite number of at least 0",
                   printable(options.weight_decay));
  for (const OptimizerOption *option : optimizerOptions)
    if (Status status = checkOption(*optimizer, *option, options.*option->given); !status.ok())
      return status;
  if (options.clip > 0 && format::findOptimizer(options.optimizer)->forwardOnly)
    return failure(MEBP_INVALID_ARGUMENT, "%s has no gradient that could be clipped; leave out clip", optimizer->name);
  return Status();
}

OptimizerOptions optionsOf(const mebp_session_options &options) {
  OptimizerOptions all;
  all.learningRate = options.learning_rate;
  all.weightDecay = options.weight_decay;
  for (const OptionDefault &taken : findOptimizer(options.optimizer)->options) {
    if (!taken.option)
      continue;
    double given = options.*taken.option->given;
    all.*taken.option->value = given == taken.option->notGiven ? taken.value : given;
  }
  return all;
}

} // namespace mebp
