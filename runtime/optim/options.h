// SPDX-License-Identifier: Apache-2.0
//
// What an optimizer can be told, and what each makes of what it is not told.
#pragma once

#include <cstdint>
#include <limits>

#include "format/optimizers.h"
#include "mebp/mebp.h"

namespace mebp {

// In double, as torch keeps its options.
struct OptimizerOptions {
  double learningRate = 0, weightDecay = 0; // every optimizer's
  double beta1 = 0, beta2 = 0, epsilon = 0, momentum = 0, perturbation = 0;
  double galoreScale = 0, galoreUpdateInterval = 0, galoreRefresh = 0, cosThreshold = 0;
};

// One that not every optimizer takes. A range is from 0 on.
struct OptimizerOption {
  const char *name;   // in a saved state
  const char *called; // on the command line and in Python
  double OptimizerOptions::*value;
  double mebp_session_options::*given;
  double below = std::numeric_limits<double>::infinity();
  bool mayBeZero = true;
  double notGiven = MEBP_OWN_DEFAULT; // a field that was added to mebp.h later has 0 here
  bool isWhole = false;               // a number of steps
};
namespace option {
inline constexpr OptimizerOption beta1 = {"beta1", "betas", &OptimizerOptions::beta1, &mebp_session_options::beta1, 1};
inline constexpr OptimizerOption beta2 = {"beta2", "betas", &OptimizerOptions::beta2, &mebp_session_options::beta2, 1};
inline constexpr OptimizerOption epsilon = {"epsilon", "eps", &OptimizerOptions::epsilon,
                                            &mebp_session_options::epsilon};
inline constexpr OptimizerOption momentum = {
    "momentum", "momentum", &OptimizerOptions::momentum, &mebp_session_options::momentum, format::momentumBelow,
    true,       0};
inline constexpr OptimizerOption perturbation = {"perturbation",
                                                 "perturbation",
                                                 &OptimizerOptions::perturbation,
                                                 &mebp_session_options::perturbation,
                                                 std::numeric_limits<double>::infinity(),
                                                 false};
inline constexpr OptimizerOption galoreScale = {"galore_scale",
                                                "galore-scale",
                                                &OptimizerOptions::galoreScale,
                                                &mebp_session_options::galore_scale,
                                                std::numeric_limits<double>::infinity(),
                                                false,
                                                0};
inline constexpr OptimizerOption galoreUpdateInterval = {"galore_update_interval",
                                                         "galore-update-interval",
                                                         &OptimizerOptions::galoreUpdateInterval,
                                                         &mebp_session_options::galore_update_interval,
                                                         std::numeric_limits<double>::infinity(),
                                                         false,
                                                         0,
                                                         true};
inline constexpr OptimizerOption galoreRefresh = {"galore_refresh",
                                                  "galore-refresh",
                                                  &OptimizerOptions::galoreRefresh,
                                                  &mebp_session_options::galore_refresh,
                                                  MEBP_REFRESH_BY_SVD + 1,
                                                  true,
                                                  MEBP_REFRESH_BY_SKETCH,
                                                  true};
inline constexpr OptimizerOption cosThreshold = {"galore_cos_threshold",
                                                 "galore-cos-threshold",
                                                 &OptimizerOptions::cosThreshold,
                                                 &mebp_session_options::galore_cos_threshold,
                                                 std::numeric_limits<double>::infinity(),
                                                 false,
                                                 0};
} // namespace option
inline constexpr const OptimizerOption *optimizerOptions[] = {&option::beta1,
                                                              &option::beta2,
                                                              &option::epsilon,
                                                              &option::momentum,
                                                              &option::perturbation,
                                                              &option::galoreScale,
                                                              &option::galoreUpdateInterval,
                                                              &option::galoreRefresh,
                                                              &option::cosThreshold};

} // namespace mebp
