// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/optim/session_options.h"

namespace mebp::test {

// What an optimizer goes by where a session gives its learning rate alone.
inline OptimizerOptions ownOptions(const format::OptimizerTraits &traits, double rate) {
  mebp_session_options given;
  mebp_session_options_init(&given);
  given.optimizer = static_cast<mebp_optimizer>(traits.number);
  given.learning_rate = rate;
  return optionsOf(given);
}

} // namespace mebp::test
