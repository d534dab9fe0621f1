// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/PrintPlan.h"

#include "compiler/Options.h"

#include "format/readable.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace mebp {

namespace {

void printRow(llvm::raw_ostream &stream, llvm::StringRef name, uint64_t bytes, llvm::StringRef source) {
  stream << llvm::formatv("  {0,-32} {1,10:f2} MB", format::readable(name), static_cast<double>(bytes) / 1e6);
  if (!source.empty())
    stream << "  " << format::readable(source);
  stream << "\n";
}

Spill getSpill(const format::Plan &plan) {
  return plan.spill_optimizer() ? Spill::All : plan.spill_checkpoints() ? Spill::Checkpoints : Spill::None;
}

using Buffers = format::Repeated<format::Buffer>;

llvm::json::Array toJson(const Buffers &buffers) {
  llvm::json::Array array;
  for (const format::Buffer &buffer : buffers)
    array.push_back(llvm::json::Object{
        {"name", buffer.name()}, {"bytes", static_cast<int64_t>(buffer.bytes())}, {"source", buffer.source()}});
  return array;
}

void printGeneration(llvm::raw_ostream &stream, const format::Bundle &bundle) {
  const format::Plan &plan = bundle.plan();
  stream << llvm::formatv("generating text, prompt and answer up to {0} tokens:\n", bundle.model().positions());
  printRow(stream, "process", plan.process_bytes(), "the runtime itself");
  for (const format::Buffer &buffer : plan.generation())
    printRow(stream, buffer.name(), buffer.bytes(), buffer.source());
  printRow(stream, "peak", plan.generation_peak_bytes(), "of a process that generates and does not train");
}

} // namespace

void printPlan(llvm::raw_ostream &stream, const format::Bundle &bundle, bool explain) {
  const format::Plan &plan = bundle.plan();
  const format::Model &model = bundle.model();
  stream << llvm::formatv("{0}: batch {1}, up to {2} tokens, {3} blocks in {4} programs\n",
                          model.name().empty() ? "model" : format::readable(model.name()), model.batch(),
                          model.sequence(), bundle.blocks_size(), bundle.programs_size());
  const bool onDevice = format::findDevice(plan.device())->placesValues;
  Schedule schedule{plan.chunk(), plan.spacing(), plan.loss_rows(), plan.loss_columns(), getSpill(plan), {}};
  stream << "  " << describeSchedule(schedule)
         << llvm::formatv(plan.calibrated() ? "; predicted {0:f2} s a step (calibrated on this machine)\n"
                                            : "; estimated {0:f2} s a step\n",
                          plan.predicted_seconds());
  printRow(stream, "process", plan.process_bytes(), "the runtime itself");
  for (const format::Buffer &buffer : plan.buffers())
    printRow(stream, buffer.name(), buffer.bytes(), buffer.source());
  printRow(stream, "peak", plan.peak_bytes(),
           onDevice ? "on the host and on " + plan.device() : "all memory that mebp-run allocates or writes");
  printRow(stream, "weights", bundle.weights_bytes(),
           onDevice ? "on " + plan.device() + ", too; not counted in the peak"
                    : "mapped from disk, read only; not counted in the peak");
  if (plan.resident_limit())
    printRow(stream, "resident limit", plan.resident_limit(), "of the weights, in memory at once");
  if (plan.file_bytes())
    printRow(stream, "spilled", plan.file_bytes(), "written to a file in each step and read back");
  if (plan.in_flight_bytes())
    printRow(stream, "in flight", plan.in_flight_bytes(), "each micro-batch beyond the first, of --in-flight N");
  if (plan.generation_peak_bytes())
    printGeneration(stream, bundle);
  if (!explain)
    return;
  printRow(stream, "largest sum of live bytes", plan.live_bytes(),
           llvm::formatv("the plan is {0:f1} % above it",
                         100.0 * (static_cast<double>(plan.peak_bytes()) / static_cast<double>(plan.live_bytes()) - 1))
               .str());
  stream << "peak by optimizer and by how gradients are handled:\n";
  for (const format::Buffer &buffer : plan.other_peaks())
    printRow(stream, buffer.name(), buffer.bytes(), "");
  stream << (onDevice ? "in use on the device where scratch is fullest:\n"
                      : "in use at the peak of the scratch arena:\n");
  for (const format::Buffer &buffer : plan.at_peak())
    printRow(stream, buffer.name(), buffer.bytes(), buffer.source());
}

void printPlanJson(llvm::raw_ostream &stream, const format::Bundle &bundle) {
  const format::Plan &plan = bundle.plan();
  llvm::json::Object object{
      {"peak_bytes", static_cast<int64_t>(plan.peak_bytes())},
      {"process_bytes", static_cast<int64_t>(plan.process_bytes())},
      {"weights_bytes", static_cast<int64_t>(bundle.weights_bytes())},
      {"threads", plan.threads()},
      {"optimizer", plan.optimizer()},
      {"momentum", plan.momentum()},
      {"chunk", plan.chunk()},
      {"spacing", plan.spacing()},
      {"budget_bytes", static_cast<int64_t>(plan.budget_bytes())},
      {"spill_checkpoints", plan.spill_checkpoints()},
      {"spill_optimizer", plan.spill_optimizer()},
      {"file_bytes", static_cast<int64_t>(plan.file_bytes())},
      {"resident_limit", static_cast<int64_t>(plan.resident_limit())},
      {"live_bytes", static_cast<int64_t>(plan.live_bytes())},
      {"predicted_seconds", plan.predicted_seconds()},
      {"calibrated", plan.calibrated()},
      {"loss_rows", plan.loss_rows()},
      {"loss_columns", plan.loss_columns()},
      {"buffers", toJson(plan.buffers())},
      {"other_peaks", toJson(plan.other_peaks())},
      {"at_peak", toJson(plan.at_peak())},
      {"generation_peak_bytes", static_cast<int64_t>(plan.generation_peak_bytes())},
      {"in_flight_bytes", static_cast<int64_t>(plan.in_flight_bytes())},
      {"device", plan.device()},
      {"device_bytes", static_cast<int64_t>(plan.device_bytes())},
      {"generation_device_bytes", static_cast<int64_t>(plan.generation_device_bytes())},
      {"generation", toJson(plan.generation())},
  };
  stream << llvm::formatv("{0:2}", llvm::json::Value(std::move(object))) << "\n";
}

} // namespace mebp
