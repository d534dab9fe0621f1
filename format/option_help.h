// SPDX-License-Identifier: Apache-2.0
//
// The words of format/options.h with what the tables of adapters and optimizers add to them, for whoever prints help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/adapters.h"
#include "format/optimizers.h"
#include "format/options.h"

namespace mebp::format {

// The remote adapters, or the optimizers, that alone take an option; empty: it is not for some alone.
inline std::vector<std::string> thoseTaking(std::string_view option) {
  if (option == "galore-rank")
    return namesOf(optimizers, [](const OptimizerTraits &traits) { return traits.projects; });
  return namesOf(adapters, [&](const AdapterTraits &traits) { return traits.isRemote && traits.takes(option); });
}

// What --help says of an option: before it, for whom it is; behind targets, what those of remote adapters are.
inline std::string helpOf(const OptionText &option) {
  const std::vector<std::string> taking = thoseTaking(option.name);
  std::string help = taking.empty() ? option.help : "with " + listed(taking) + ", " + option.help;
  const bool isOfTargets = std::string_view(option.name) == "lora-targets";
  for (const AdapterTraits &traits : adapters)
    if (isOfTargets && traits.isRemote)
      help += std::string("; of ") + traits.name + " by default " + traits.targets;
  return help;
}

} // namespace mebp::format
