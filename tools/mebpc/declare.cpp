// SPDX-License-Identifier: Apache-2.0
#include "declare.h"

#include "compiler/VisitOptions.h"
#include "format/adapters.h"
#include "format/optimizers.h"
#include "format/option_help.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <functional>
#include <string_view>
#include <type_traits>

namespace mebp {

namespace {

std::string describeAdapters() {
  std::string text = format::adapters[0].name;
  for (const format::AdapterTraits &adapter : format::adapters)
    if (adapter.isRemote)
      text += std::string(", or ") + adapter.name + ": " + adapter.formula + ", of which " + adapter.symbol +
              " alone is trained";
  return text + ", and may be on another machine than the layers";
}

constexpr bool endsIn(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}
static_assert(endsIn(format::optionText("weights").help, format::weightFormatNames), "format/options.h lists others");

/// One that other commands have, too.
template <typename Value> CLI::Option *addShared(CLI::App &app, const std::string &name, Value &value) {
  const std::string help = helpOf(format::optionText(name));
  if constexpr (std::is_same_v<Value, bool>)
    return app.add_flag("--" + name, value, help);
  else
    return app.add_option("--" + name, value, help);
}

/// Those of a group that are handed on as they stand.
void declareListed(CLI::App &app, std::string_view group, Options &options) {
  visitListed(options, [&](const format::OptionText &row, auto &value) {
    using Value = std::decay_t<decltype(value)>;
    if (group != row.group)
      return;
    CLI::Option *option = addShared(app, row.name, value);
    if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>)
      option->capture_default_str();
    if constexpr (std::is_same_v<Value, int64_t>)
      if (std::isfinite(row.least))
        option->check(CLI::Range(static_cast<int64_t>(row.least), static_cast<int64_t>(row.most)));
    if constexpr (std::is_same_v<Value, double>)
      if (row.least == 0)
        option->check(CLI::NonNegativeNumber);
    if (row.isChosen)
      option->excludes(app.get_option("--memory-budget"), app.get_option("--frontier"));
  });
}

void declareShape(CLI::App &app, Compilation &out) {
  app.option_defaults()->group("Shape");
  app.add_option("--seq-len", out.sequence, "the longest sequence to train on, in tokens (default: as exported)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch", out.batch, "the largest batch, in sequences (default: as exported)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_flag("--packing", out.options.shape.packs,
               "let a step put several samples into one row, each with positions and attention of its own");
  app.add_option("--generate-len", out.generateLength,
                 "let the bundle generate text, prompt and answer together up to this many tokens")
      ->check(CLI::Range(0, 1 << 20));
}

void declareTypes(CLI::App &app, Storage &storage, Texts &texts) {
  app.option_defaults()->group("Types");
  addShared(app, "precision", texts.precision)->check(CLI::IsMember({"bf16", "f32"}))->capture_default_str();
  addShared(app, "weights", texts.weights);
  addShared(app, "embedding-weights", texts.embeddingWeights);
  addShared(app, "weights-for", storage.rules)->delimiter(',')->allow_extra_args(false);
}

void declareTrained(CLI::App &app, Options &options, Texts &texts) {
  app.option_defaults()->group("What is trained");
  addShared(app, "train", texts.train)->check(CLI::IsMember({"lora", "full"}))->capture_default_str();
  addShared(app, "train-targets", options.full.targets)->delimiter(',')->allow_extra_args(false)->capture_default_str();
  addShared(app, "lora-rank", options.lora.rank)->capture_default_str();
  addShared(app, "lora-alpha", options.lora.alpha)->capture_default_str();
  addShared(app, "rslora", options.lora.isRankStabilized);
  addShared(app, "lora-dropout", options.lora.dropout)->capture_default_str();
  addShared(app, "lora-targets", options.lora.targets)->delimiter(',')->capture_default_str();
  addShared(app, "lora-layers", texts.loraLayers);
}

void declareRemoteAdapters(CLI::App &app, Options &options, Texts &texts) {
  Split &split = options.split;
  app.option_defaults()->group(format::remoteGroup);
  app.add_option("--adapter", options.adapters.kind, describeAdapters())
      ->check(CLI::IsMember(format::namesOf(format::adapters)))
      ->capture_default_str();
  declareListed(app, format::remoteGroup, options);
  addShared(app, "split-layers", texts.splitLayers);
  app.add_option("--split", texts.split,
                 format::listAdapters() +
                     ": write two bundles, NAME.edge.mebp for the device with the text and the adapter, and "
                     "NAME.cloud.mebp for the server with the layers")
      ->check(CLI::IsMember(format::namesOf(format::adapters, std::mem_fn(&format::AdapterTraits::isRemote))));
  app.add_option("--device-first", split.deviceFirst, "with --split, how many first layers stay on the device")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  app.add_option("--device-last", split.deviceLast, "with --split, how many last layers stay on the device")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  addShared(app, "wire", texts.wire)->check(CLI::IsMember({"bf16", "f32"}));
}

void declareDrawn(CLI::App &app, Options &options) {
  app.option_defaults()->group(format::drawnGroup);
  app.add_option("--seed", options.lora.seed, "seed for the adapters' initial values")->capture_default_str();
  declareListed(app, format::drawnGroup, options);
}

void declareStep(CLI::App &app, Options &options, Texts &texts) {
  app.option_defaults()->group(format::stepGroup);
  declareListed(app, format::stepGroup, options);
  app.add_flag("--value-adapter", options.training.hasValueAdapter,
               "with --value-head and --objective " + listObjectives(&format::ObjectiveTraits::hasValues) +
                   ", plan memory for an adapter of the value head's own, as mebp "
                   "train --value-model own has it");
  app.add_option("--optimizer", options.training.optimizer,
                 "plan memory for this optimizer: " + format::listed(format::namesOf(format::optimizers)))
      ->check(CLI::IsMember(format::namesOf(format::optimizers)))
      ->capture_default_str();
  app.add_option("--objective", texts.objective,
                 "plan memory for this objective of mebp train: with " +
                     listObjectives(&format::ObjectiveTraits::sumsSequences) +
                     ", a step sums gradients over its sequences; with " +
                     listObjectives(&format::ObjectiveTraits::writes) + " and --generate-len it writes text, too")
      ->check(CLI::IsMember(format::namesOf(format::objectives)))
      ->capture_default_str();
  app.add_flag("--accumulate", texts.accumulates,
               "plan memory for steps over several micro-batches, whose gradients are summed");
  app.add_flag("--clip", options.training.keeps, "plan memory for clipping, which keeps all gradients of a step");
  app.add_option("--momentum", options.training.momentum,
                 "with --optimizer sgd, plan for this momentum, which has to be kept")
      ->capture_default_str();
}

void declareMachine(CLI::App &app, Compilation &out) {
  app.option_defaults()->group("The machine");
  app.add_option("--device", out.options.training.device,
                 "plan memory, and choose the schedule, for this device: " +
                     format::listed(format::namesOf(format::devices)))
      ->check(CLI::IsMember(format::namesOf(format::devices)))
      ->capture_default_str();
  app.add_option("--threads", out.options.training.threads,
                 "plan memory for this many threads (default: one for each core that it may use here)")
      ->check(CLI::Range(1, 4096));
  addShared(app, "rates", out.rates);
}

void declareMemory(CLI::App &app, Compilation &out, Texts &texts) {
  app.option_defaults()->group(format::memoryGroup);
  CLI::Option *budget = app.add_option("--memory-budget", texts.memoryBudget,
                                       "choose the fastest plan with at most this peak, such as 64MiB, or auto: three "
                                       "quarters of the memory that is free");
  CLI::Option *frontier = app.add_flag("--frontier", out.showFrontier,
                                       "print what each budget buys, from the least peak to where more does not help, "
                                       "with what a process then has in all, and stop")
                              ->excludes(budget);
  declareListed(app, format::memoryGroup, out.options);
  addShared(app, "spill", texts.spill)->check(CLI::IsMember({"none", "checkpoints", "all"}));
  addShared(app, "resident-limit", texts.residentLimit);
  app.add_option("--max-seq-for", texts.maxSequenceFor,
                 "print the longest sequence that trains within this peak, such as 1GiB, and stop")
      ->excludes(budget, frontier);
}

void declarePrinted(CLI::App &app, Compilation &out, Texts &texts) {
  app.option_defaults()->group("What to print");
  app.add_flag("--plan-only", out.planOnly, "print the plan and write no bundle");
  app.add_flag("--explain-peak", out.explainPeak, "list what is in use at the peak");
  app.add_flag("--explain-wire", out.explainWire,
               "with --split, list what crosses between the halves: of which block, in which type, how many bytes");
  app.add_option("--plan-json", out.planJson, "write the plan to this file as JSON");
  app.add_option("--emit", texts.emit, "print the program at this level and stop")
      ->excludes(app.get_option("--frontier"))
      ->check(CLI::IsMember({"nn", "train", "exec"}));
}

} // namespace

void declareOptions(CLI::App &app, Compilation &out, Texts &texts) {
  app.add_option("model", out.input, "the ONNX file that `mebp export` wrote, or what --emit exec printed (.mlir)");
  app.add_option("-o,--output", out.output, "write the bundle to this folder, NAME.mebp");
  declareShape(app, out);
  declareTypes(app, out.options.storage, texts);
  declareTrained(app, out.options, texts);
  declareRemoteAdapters(app, out.options, texts);
  declareDrawn(app, out.options);
  declareStep(app, out.options, texts);
  declareMachine(app, out);
  declareMemory(app, out, texts);
  declarePrinted(app, out, texts);
  app.add_flag("--check-options", texts.checksOptions, "check the other options, without a model, and stop");
  app.set_version_flag("--version", "mebpc " MEBP_VERSION, "print the version");
}

} // namespace mebp
