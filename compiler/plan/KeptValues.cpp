// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/KeptValues.h"

#include "format/alignment.h"
#include "llvm/ADT/StringExtras.h"

namespace mebp {

static llvm::ArrayRef<std::shared_ptr<const layout::BlockFacts>> getLayers(const layout::Facts &facts) {
  return llvm::ArrayRef(facts.blocks).drop_front().drop_back();
}

uint64_t countKeptValues(const layout::Facts &facts) {
  uint64_t bytes = 0;
  for (const auto &layer : getLayers(facts))
    for (const layout::Passed &passed : layer->training.passed)
      bytes += passed.kind == format::Port::KEPT ? format::alignUp(passed.bytes) : 0;
  return bytes;
}

std::string describeKeptValues(const layout::Facts &facts) {
  llvm::SmallVector<std::pair<std::string, unsigned>> layers; // in how many layers these are kept
  for (const auto &layer : getLayers(facts)) {
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
