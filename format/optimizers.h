// SPDX-License-Identifier: Apache-2.0
//
// The optimizers, for everyone that takes one by its name, counts its memory or runs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mebp::format {

struct OptimizerTraits {
  const char *name;
  int number;           // of mebp_optimizer in mebp.h; never given twice
  uint32_t stateArrays; // as long as the parameters, kept from step to step
  bool forwardOnly;     // takes losses instead of a gradient
};

// The default first.
inline constexpr OptimizerTraits optimizers[] = {
    {"adamw", 1, 2, false},
    {"sgd", 0, 0, false},
    {"mezo", 2, 0, true},
};
constexpr uint32_t maximumStateArrays = 2;

// Null where there is none.
constexpr const OptimizerTraits *findOptimizer(std::string_view name) {
  for (const OptimizerTraits &traits : optimizers)
    if (name == traits.name)
      return &traits;
  return nullptr;
}
constexpr const OptimizerTraits *findOptimizer(int number) {
  for (const OptimizerTraits &traits : optimizers)
    if (number == traits.number)
      return &traits;
  return nullptr;
}

inline std::vector<std::string> optimizerNames() {
  std::vector<std::string> names;
  for (const OptimizerTraits &traits : optimizers)
    names.emplace_back(traits.name);
  return names;
}
// "a, b or c".
inline std::string listOptimizers() {
  std::vector<std::string> names = optimizerNames();
  std::string list = names.front();
  for (size_t i = 1; i < names.size(); ++i)
    list += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return list;
}

} // namespace mebp::format
