// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/PrintFrontier.h"

#include "format/python_memory.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace mebp {

static constexpr double noticed = 0.01; // of a step's seconds

void printFrontier(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier, uint64_t weights) {
  auto megabytes = [](uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  stream << "  peak MB + weights MB + Python MB = together MB     s a step  MB to disk  what a step does\n";
  const Choice *last = nullptr;
  for (const Choice &choice : frontier) {
    const bool isLike = last && choice.schedule.spill == last->schedule.spill;
    if (isLike && choice.seconds > (1 - noticed) * last->seconds && &choice != &frontier.back())
      continue;
    last = &choice;
    stream << llvm::formatv("{0,9:f2} {1,12:f2} {2,11:f0} {3,13:f2} {4,12:f2} {5,11:f2}  {6}\n",
                            megabytes(choice.peakBytes), megabytes(weights), megabytes(format::pythonBytes),
                            megabytes(choice.peakBytes + weights + format::pythonBytes), choice.seconds,
                            megabytes(choice.fileBytes), describe(choice));
  }
  stream << "peak is what training allocates or writes. Weights are mapped from disk and only read, so the system can "
            "take their memory back.\n"
            "Python is about what mebp train adds, with little data; mebp-run has none.\n";
}

void printFrontierJson(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier, uint64_t weights) {
  llvm::json::OStream json(stream, 2);
  json.object([&] {
    json.attribute("weights_bytes", static_cast<int64_t>(weights));
    json.attribute("python_bytes", static_cast<int64_t>(format::pythonBytes));
    json.attributeArray("frontier", [&] {
      for (const Choice &choice : frontier)
        json.object([&] {
          json.attribute("peak_bytes", static_cast<int64_t>(choice.peakBytes));
          json.attribute("seconds", choice.seconds);
          json.attribute("file_bytes", static_cast<int64_t>(choice.fileBytes));
          json.attribute("description", describe(choice));
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
