// SPDX-License-Identifier: Apache-2.0
//
// What an optimizer can be told: the table by which sessions, commands and packages take it, and check it.
#pragma once

#include <limits>
#include <string_view>

#include "format/optimizers.h"
#include "mebp/mebp.h"

namespace mebp {

// In double, as torch keeps its options.
struct OptimizerOptions {
  double learningRate = 0, weightDecay = 0; // every optimizer's
  double beta1 = 0, beta2 = 0, epsilon = 0, momentum = 0, perturbation = 0;
  double galoreScale = 0, galoreUpdateInterval = 0, galoreRefresh = 0, cosThreshold = 0;
};

// One that not every optimizer takes. It may be any finite number from 0 on, but for what its row says.
struct OptimizerOption {
  const char *name;   // of its field in mebp.h, and in a saved state
  const char *called; // on a command line and, with _ for -, in Python. Rows called alike are given together, as a pair
  double OptimizerOptions::*value;
  double mebp_session_options::*given;
  double below = std::numeric_limits<double>::infinity();
  bool mayBeZero = true;
  bool isWhole = false;
  double notGiven = MEBP_OWN_DEFAULT;
  const char *choices[4] = {}; // what the numbers from 0 on are called, and behind the last a null
  // What a command line calls its value, and what it is, for its help; of rows called alike the first has both. Who
  // takes it and what it is by default goes before and behind, unless the text says what holds.
  const char *written = "", *help = "";

  constexpr OptimizerOption lessThan(double limit) const {
    OptimizerOption row = *this;
    row.below = limit;
    return row;
  }
  constexpr OptimizerOption aboveZero() const {
    OptimizerOption row = *this;
    row.mayBeZero = false;
    return row;
  }
  constexpr OptimizerOption whole() const {
    OptimizerOption row = *this;
    row.isWhole = true;
    return row;
  }
  // Of fields that mebp.h says so of. Whoever adds one leaves this out: 0 could not be told from nothing.
  constexpr OptimizerOption zeroIfNotGiven() const {
    OptimizerOption row = *this;
    row.notGiven = 0;
    return row;
  }
  constexpr OptimizerOption oneOf(const char *first, const char *second) const {
    OptimizerOption row = whole().lessThan(2);
    row.choices[0] = first, row.choices[1] = second;
    return row;
  }
  constexpr OptimizerOption says(const char *valueWritten, const char *text) const {
    OptimizerOption row = *this;
    row.written = valueWritten, row.help = text;
    return row;
  }
  constexpr bool isPairedWith(const OptimizerOption &other) const { return std::string_view(called) == other.called; }
};

inline constexpr OptimizerOption optimizerOptions[] = {
    OptimizerOption{"beta1", "betas", &OptimizerOptions::beta1, &mebp_session_options::beta1}.lessThan(1).says(
        "X,Y", "how slowly its averages move"),
    OptimizerOption{"beta2", "betas", &OptimizerOptions::beta2, &mebp_session_options::beta2}.lessThan(1),
    OptimizerOption{"epsilon", "eps", &OptimizerOptions::epsilon, &mebp_session_options::epsilon}.says(
        "X", "what is added to the divisor"),
    OptimizerOption{"momentum", "momentum", &OptimizerOptions::momentum, &mebp_session_options::momentum}
        .lessThan(format::momentumBelow)
        .zeroIfNotGiven()
        .says("X", "which then keeps a number of each element (default: as compiled)"),
    OptimizerOption{"perturbation", "perturbation", &OptimizerOptions::perturbation,
                    &mebp_session_options::perturbation}
        .aboveZero()
        .says("X", "what its random directions are multiplied with"),
    OptimizerOption{"galore_scale", "galore-scale", &OptimizerOptions::galoreScale, &mebp_session_options::galore_scale}
        .aboveZero()
        .zeroIfNotGiven()
        .says("X", "what updates are multiplied with"),
    OptimizerOption{"galore_update_interval", "galore-update-interval", &OptimizerOptions::galoreUpdateInterval,
                    &mebp_session_options::galore_update_interval}
        .aboveZero()
        .whole()
        .zeroIfNotGiven()
        .says("N", "steps from one search for subspaces to the next"),
    OptimizerOption{"galore_refresh", "galore-refresh", &OptimizerOptions::galoreRefresh,
                    &mebp_session_options::galore_refresh}
        .oneOf("sketch", "svd")
        .zeroIfNotGiven()
        .says("HOW", "find subspaces by sketch, or exactly by svd, slowly"),
    OptimizerOption{"galore_cos_threshold", "galore-cos-threshold", &OptimizerOptions::cosThreshold,
                    &mebp_session_options::galore_cos_threshold}
        .aboveZero()
        .zeroIfNotGiven()
        .says("X", "similarity of subspaces from which on it searches half as often"),
};

} // namespace mebp
