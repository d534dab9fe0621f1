// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/session_options.h"

namespace mebp {

// "1e-8", where %g gives "1e-08".
static std::string spelled(double number) {
  std::string text = textOf("%g", number);
  if (const size_t sign = text.find('e'); sign != std::string::npos)
    text.erase(sign + 2, text.find_first_not_of('0', sign + 2) - sign - 2);
  return text;
}

// What an optimizer has where the option, or one of its pair, is not given.
static std::string defaultOf(const Optimizer &optimizer, const OptimizerOption &option) {
  std::string list;
  for (const OptimizerOption &row : optimizerOptions)
    for (const OptionDefault &taken : optimizer.options)
      if (row.isPairedWith(option) && taken.option == row.value)
        list += (list.empty() ? "" : ",") +
                (row.choices[0] ? std::string(row.choices[static_cast<size_t>(taken.value)]) : spelled(taken.value));
  return list;
}

std::string helpOf(const OptimizerOption &option) {
  std::string usual, defaults; // of the first that takes it, and of those that have another
  for (const format::OptimizerTraits &traits : format::optimizers)
    if (const Optimizer &optimizer = *findOptimizer(traits.number); optimizer.takes(option)) {
      const std::string own = defaultOf(optimizer, option);
      if (usual.empty())
        usual = defaults = own;
      else if (own != usual)
        defaults += std::string("; ") + optimizer.name + ": " + own;
    }
  const bool saysDefault = std::string_view(option.help).find("(default") != std::string_view::npos;
  return "of " + listTaking(option, " and ") + ", " + option.help + (saysDefault ? "" : " (default: " + defaults + ")");
}

} // namespace mebp
