// SPDX-License-Identifier: Apache-2.0
//
// The words of format/options.h with what the table of adapters adds to them, for whoever prints help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/adapters.h"
#include "format/options.h"

namespace mebp::format {

// What --help says of an option: before it, which remote adapters alone take it; behind targets, what theirs are.
inline std::string helpOf(const OptionText &option) {
  const std::vector<std::string> taking =
      namesOf(adapters, [&](const AdapterTraits &traits) { return traits.isRemote && traits.takes(option.name); });
  std::string help = taking.empty() ? option.help : "with " + listed(taking) + ", " + option.help;
  const bool isOfTargets = std::string_view(option.name) == "lora-targets";
  for (const AdapterTraits &traits : adapters)
    if (isOfTargets && traits.isRemote)
      help += std::string("; of ") + traits.name + " by default " + traits.targets;
  return help;
}

} // namespace mebp::format
