// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/PrintFrontier.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace mebp {

static constexpr double noticed = 0.01; // of a step's seconds

void printFrontier(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier) {
  const double fastest = frontier.back().seconds;
  stream << "      peak        step  of the fastest     values kept\n";
  const Choice *last = nullptr;
  for (const Choice &choice : frontier) {
    if (last && choice.seconds > (1 - noticed) * last->seconds && &choice != &frontier.back())
      continue;
    last = &choice;
    stream << llvm::formatv("{0,7:f2} MB  {1,8:f2} s  {2,14:f2}  {3,11:f2} MB  {4}\n",
                            static_cast<double>(choice.peakBytes) / 1e6, choice.seconds, choice.seconds / fastest,
                            static_cast<double>(choice.valueBytes) / 1e6, describeSchedule(choice.schedule));
  }
}

void printFrontierJson(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier) {
  llvm::json::OStream json(stream, 2);
  json.object([&] {
    json.attributeArray("frontier", [&] {
      for (const Choice &choice : frontier)
        json.object([&] {
          json.attribute("peak_bytes", static_cast<int64_t>(choice.peakBytes));
          json.attribute("seconds", choice.seconds);
          json.attribute("chunk", choice.schedule.chunk);
          json.attribute("loss_rows", choice.schedule.lossRows);
          json.attribute("loss_columns", choice.schedule.lossColumns);
          json.attribute("checkpoint_spacing", choice.schedule.spacing);
          json.attribute("spill", nameOf(choice.schedule.spill));
          json.attribute("kept_bytes", static_cast<int64_t>(choice.valueBytes));
          json.attribute("kept_values", choice.keptValues);
        });
    });
  });
  stream << "\n";
}

} // namespace mebp
