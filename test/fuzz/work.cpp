// SPDX-License-Identifier: Apache-2.0
#include "work.h"

#include <algorithm>

#include "format/lookup.h"

namespace mebp::fuzz {

namespace {

class Counter {
public:
  Counter(const format::Program &program, double tokens) : program(program), tokens(tokens) {}

  double count(const format::Repeated<format::Step> &steps) const {
    double total = 0;
    for (const format::Step &step : steps) {
      total += 1;
      if (step.has_kernel())
        total += count(step.kernel());
      else if (step.has_loop())
        total += tripsOf(step.loop()) * count(step.loop().steps());
      else if (step.has_update())
        total += elements(static_cast<int>(step.update().source()));
    }
    return total;
  }

private:
  bool known(int64_t index) const { return index >= 0 && index < program.values_size(); }
  double elements(int index) const {
    const format::Value &value = program.values(known(index) ? index : 0);
    return static_cast<double>(value.rows()) * static_cast<double>(value.columns());
  }
  // A product has its operands' elements, so many times as the longest side of any of them, at most.
  double count(const format::Kernel &kernel) const {
    double total = 0, longest = 1;
    for (const auto *list : {&kernel.operands(), &kernel.results()})
      for (int32_t index : *list)
        if (known(index)) {
          const format::Value &value = program.values(index);
          total += elements(index);
          longest = std::max({longest, static_cast<double>(value.rows()), static_cast<double>(value.columns())});
        }
    return total * longest;
  }
  double tripsOf(const format::Loop &loop) const {
    double rows = tokens;
    if (loop.domain() == format::Loop::WEIGHT_ROWS && known(loop.domain_value()))
      rows = static_cast<double>(program.values(static_cast<int>(loop.domain_value())).rows());
    return std::max(1.0, rows / std::max(1u, loop.size()) + tokens);
  }

  const format::Program &program;
  double tokens;
};

} // namespace

double workOf(const format::Bundle &bundle) {
  const double tokens = static_cast<double>(bundle.model().batch()) * bundle.model().sequence();
  std::vector<double> costs;
  for (const format::Program &program : bundle.programs())
    costs.push_back(program.values_size() ? Counter(program, tokens).count(program.steps()) : 0);
  double total = 0;
  for (const format::Block &block : bundle.blocks())
    for (const format::BlockProgram &program : block.programs())
      if (program.program() < costs.size())
        total += costs[program.program()];
  return total;
}

} // namespace mebp::fuzz
