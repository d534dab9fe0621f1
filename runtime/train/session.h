// SPDX-License-Identifier: Apache-2.0
//
// A training run over a bundle: an engine, and one class for each way of stepping.
#pragma once

#include "runtime/train/engine.h"
#include "runtime/train/gradient_step.h"
#include "runtime/train/mezo_step.h"
#include "runtime/train/sequences.h"
#include "runtime/train/subspace_search.h"

namespace mebp {

class Session {
public:
  explicit Session(Lasting &lasting) : engine(lasting) {}
  Status create(Bundle &opened, const mebp_session_options &options);

  Status loss(const Tokens &tokens, double &out);
  Status lossAndGradients(const Tokens &tokens, const Objective &of, double &out);
  // Those that count.
  Status countLabels(const Batches &batches, uint64_t &out);
  Status step(const Batches &batches, const Objective &of, mebp_step_result &out);
  Status applyGradients(const float *const *given);
  Status applySums(mebp_step_result &out);
  Status logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out);

  Engine engine;

private:
  SubspaceSearch search{engine};
  GradientStep gradientStep{engine, search};
  MezoStep mezoStep{engine};

public:
  Sequences sequences{engine, gradientStep}; // whose coefficients their user makes
};

} // namespace mebp
