// SPDX-License-Identifier: Apache-2.0
//
// A step that its user drives: sequences one after another, each with coefficients dL/dlogp that follow from its
// log-probabilities and from whatever else the user knows by then. Preferences and rewards are such objectives.
//
// 1. `begin` runs the forward and the head's sweep, and gives the log-probabilities.
// 2. `end` takes the coefficients and adds the gradient to a sum over the step.
// 3. A coefficient that a whole sequence has in common may come later, when another one has been scored (of a pair, for
//    example): the backward is linear in it. So the first of a pair goes to a sum of its own, with coefficients that
//    lack the factor, and `settle` adds that one, multiplied, to the step's.
// 4. Where steps are summed in a tree, `beginBatch` begins each of its leaves, of any number of sequences.
// 5. `apply` is the update. Of two adapters each has its own, one after the other: there is one sum of gradients.
//
// So a step holds the checkpoints of one sequence, however many it has.
#pragma once

#include "runtime/train/gradient_step.h"

namespace mebp {

class Sequences {
public:
  Sequences(Engine &engine, GradientStep &step) : engine(engine), step(step) {}

  // Log-probabilities alone, perhaps by another adapter.
  Status score(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out);
  Status begin(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out);
  Status end(const mebp_coefficients &coefficients, bool isPending);
  Status settle(double factor);
  // In a tree: what follows is of the micro-batch `index` of `count`.
  Status beginBatch(uint32_t index, uint32_t count);
  Status apply(double &squaredNorm);
  void discard() { engine.held = {}; }
  // What follows computes with the value's adapter and trains it, or the policy's again.
  Status useAdapter(Adapter adapter);

private:
  Status takeScored(const Tokens &tokens, const Scoring &scoring, const mebp_scores &out);
  Status runBackward(bool isPending);

  Engine &engine;
  GradientStep &step; // whose way of applying what is kept this has
};

} // namespace mebp
