// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/PrintPlan.h"

#include "compiler/pipeline/DescribeSchedule.h"
#include "format/lookup.h"
#include "format/programs.h"
#include "format/python_memory.h"
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

/// How many layers keep an input for their backward, in memory or on a disk.
uint64_t countLayers(const format::Bundle &bundle) {
  if (isForwardOnly(bundle.plan().optimizer()))
    return 0;
  return llvm::count_if(llvm::drop_begin(bundle.blocks(), lowestTrainedOf(bundle)), [](const format::Block &block) {
    return block.kind() == format::Block::LAYER &&
           llvm::any_of(block.programs(),
                        [](const format::BlockProgram &program) { return program.name() == format::forwardProgram; });
  });
}

std::string describe(const format::Bundle &bundle) {
  const format::Plan &plan = bundle.plan();
  Schedule schedule;
  schedule.chunk = plan.chunk();
  schedule.spacing = plan.spacing();
  schedule.lossRows = plan.loss_rows();
  schedule.lossColumns = plan.loss_columns();
  schedule.spill = getSpill(plan);
  uint64_t values = 0;
  for (const format::Buffer &buffer : plan.buffers())
    values += buffer.name() == "kept" ? buffer.bytes() : 0;
  return describeSchedule(schedule, countLayers(bundle), lowestTrainedOf(bundle) <= 1, values);
}

/// What a process has in all that runs such a plan from Python.
void printTogether(llvm::raw_ostream &stream, const format::Bundle &bundle) {
  const format::Plan &plan = bundle.plan();
  const uint64_t limit = plan.resident_limit(), all = bundle.weights_bytes();
  printRow(stream, "Python", format::pythonBytes, "about; what mebp train adds, with little data");
  printRow(stream, "together", plan.peak_bytes() + (limit ? std::min(limit, all) : all) + format::pythonBytes,
           "peak, weights and Python");
}

/// Of a plan that spills although nobody asked for more than a budget.
std::string describeWithoutSpill(const format::Plan &plan) {
  const double peak = static_cast<double>(plan.peak_bytes_without_spill()) / 1e6;
  if (plan.seconds_without_spill() == 0)
    return llvm::formatv("  no plan within the budget writes nothing: --spill none needs {0:f2} MB", peak);
  return llvm::formatv("  the fastest plan that writes nothing (--spill none) takes {0:f2} s a step and {1:f2} MB",
                       plan.seconds_without_spill(), peak);
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
  stream << llvm::formatv(plan.calibrated() ? "  predicted {0:f2} s a step (calibrated on this machine): {1}\n"
                                            : "  estimated {0:f2} s a step: {1}\n",
                          plan.predicted_seconds(), describe(bundle));
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
  if (!onDevice)
    printTogether(stream, bundle);
  if (plan.file_bytes())
    printRow(stream, "written to disk", plan.file_bytes(), "in each step, and read back");
  if (plan.peak_bytes_without_spill())
    stream << describeWithoutSpill(plan) << "\n";
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
      {"python_bytes", static_cast<int64_t>(format::pythonBytes)},
      {"threads", plan.threads()},
      {"optimizer", plan.optimizer()},
      {"momentum", plan.momentum()},
      {"chunk", plan.chunk()},
      {"spacing", plan.spacing()},
      {"budget_bytes", static_cast<int64_t>(plan.budget_bytes())},
      {"spill_checkpoints", plan.spill_checkpoints()},
      {"spill_optimizer", plan.spill_optimizer()},
      {"file_bytes", static_cast<int64_t>(plan.file_bytes())},
      {"seconds_without_spill", plan.seconds_without_spill()},
      {"peak_bytes_without_spill", static_cast<int64_t>(plan.peak_bytes_without_spill())},
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
