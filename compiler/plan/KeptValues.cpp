// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/KeptValues.h"

#include "llvm/ADT/StringExtras.h"

namespace mebp {

std::string describeKeptValues(const layout::Facts &facts) {
  llvm::SmallVector<std::pair<std::string, unsigned>> layers; // in how many layers these are kept
  for (const auto &layer : llvm::ArrayRef(facts.blocks).drop_front().drop_back()) {
    llvm::SmallVector<llvm::StringRef> values;
    unsigned count = 0;
    for (const layout::Passed &passed : layer->training.passed) {
      auto [place, number] = llvm::StringRef(passed.name).rsplit('.'); // of several values in one place
      llvm::StringRef value = llvm::to_integer(number, count) ? place : llvm::StringRef(passed.name);
      if (passed.kind == format::Port::KEPT && !llvm::is_contained(values, value))
        values.push_back(value);
    }
    if (values.empty())
      continue;
    std::string names = llvm::join(values, ", ");
    auto known = llvm::find_if(layers, [&](const auto &known) { return known.first == names; });
    if (known != layers.end())
      ++known->second;
    else
      layers.push_back({std::move(names), 1});
  }
  std::string text;
  for (const auto &[values, count] : layers)
    text += (text.empty() ? "of " : "; of ") + std::to_string(count) + (count == 1 ? " layer: " : " layers: ") + values;
  return text;
}

} // namespace mebp
