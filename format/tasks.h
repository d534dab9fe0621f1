// SPDX-License-Identifier: Apache-2.0
//
// What a model is for: what its outputs are of, and which of them a label is compared with.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "format/program.pb.h"
#include "format/tables.h"

namespace mebp::format {

struct TaskTraits {
  Task task;
  std::string_view name; // as --task has it
  bool isOfNextTokens;   // a label is compared with the outputs of the row before it, and else with its own row's
  bool hasClasses;       // outputs are of the model's classes, and else of the vocabulary
  const char *peftName;  // the adapter's task_type; null: PEFT has none for it
};

inline constexpr TaskTraits taskTraits[] = {
    {CAUSAL, "causal", true, false, "CAUSAL_LM"},
    {CLASSIFY, "classify", false, true, "SEQ_CLS"},
    {TOKEN_CLASSIFY, "token-classify", false, true, "TOKEN_CLS"},
    {FILL_MASK, "fill-mask", false, false, nullptr},
};

// Null where there is none of that name, or number.
inline const TaskTraits *findTask(std::string_view name) { return findByName(taskTraits, name); }
inline const TaskTraits *findTask(Task task) {
  const auto *found = std::find_if(std::begin(taskTraits), std::end(taskTraits),
                                   [&](const TaskTraits &traits) { return traits.task == task; });
  return found == std::end(taskTraits) ? nullptr : found;
}

// Of a bundle that was validated. Older ones do not name it.
inline Task taskNumberOf(const Model &model) {
  if (model.task() != TASK_UNSPECIFIED)
    return model.task();
  return model.classes_size() ? CLASSIFY : CAUSAL;
}
inline const TaskTraits &taskOf(const Model &model) { return *findTask(taskNumberOf(model)); }

} // namespace mebp::format
