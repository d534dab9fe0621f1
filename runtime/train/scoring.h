// SPDX-License-Identifier: Apache-2.0
//
// How log-probabilities are computed, beside the tokens that they are of.
#pragma once

#include "runtime/core/status.h"

namespace mebp {

class Bundle;
class Gradients;
class Trainables;

struct Scoring {
  float logitScale = 1; // 1 / temperature
  // With other values of the trainables, an array each, or the base model's where that is null. Null: with their own.
  const float *const *trainables = nullptr;
  bool byBase = false; // all have the base model's
};

// Puts other values in the place of the trainables for a while. The own ones wait where a step sums gradients.
class Substitute {
public:
  Substitute(Bundle &bundle, Trainables &trainables, const Gradients &gradients)
      : bundle(bundle), trainables(trainables), gradients(gradients) {}
  Status begin(const Scoring &scoring);
  Status end();

private:
  Bundle &bundle;
  Trainables &trainables;
  const Gradients &gradients;
  uint32_t replaced = 0; // of them, from the first on
};

} // namespace mebp
