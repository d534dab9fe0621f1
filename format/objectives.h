// SPDX-License-Identifier: Apache-2.0
//
// What `mebp train --objective` can train for, as far as a plan and refusals ask. How a step runs is in
// python/mebp/training/objectives/.
#pragma once

#include <string_view>

#include "format/tables.h"

namespace mebp::format {

struct ObjectiveTraits {
  const char *name;
  const char *data;   // what it learns from, in a line of help
  const char *form;   // how its data is written: "text", "pairs" or "prompts"
  bool sumsSequences; // a step takes each sequence by itself and sums their gradients; else it takes batches
  bool writes;        // the sequences that it learns from, as the step begins
  bool hasValues;     // of a value head, which may have an adapter of its own
  bool compares;      // with a reference model, at least by some of its options
};

// The default first.
inline constexpr ObjectiveTraits objectives[] = {
    {"sft", "the text itself", "text", false, false, false, false},
    {"dpo", "pairs of which one is preferred", "pairs", true, false, false, true},
    {"grpo", "rewards", "prompts", true, true, false, true},
    {"ppo", "rewards, against what a value head expects", "prompts", true, true, true, true},
    {"orpo", "pairs as dpo, without a reference", "pairs", true, false, false, false},
};

// Null where there is none.
constexpr const ObjectiveTraits *findObjective(std::string_view name) { return findByName(objectives, name); }

} // namespace mebp::format
