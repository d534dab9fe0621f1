// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "format/adapters.h"
#include "format/byte_size.h"
#include "format/folders.h"
#include "format/objectives.h"
#include "format/optimizers.h"
#include "format/option_help.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace mebp {

namespace {

constexpr int badInput = 2;

/// An option has an invalid value.
struct OptionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What is written as text and meant as something else.
struct Texts {
  std::string precision, weights, embeddingWeights, memoryBudget, maxSequenceFor, residentLimit, spill, emit;
  std::string train = "lora", splitLayers, split, wire, objective = format::objectives[0].name;
  bool accumulates = false;
};

uint64_t getMachineMemory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

uint64_t readSize(const std::string &option, const std::string &text) {
  uint64_t bytes = 0;
  if (std::string wrong = format::parseByteSize(text, bytes); !wrong.empty())
    throw OptionError(option + " " + text + " " + wrong);
  if (bytes > getMachineMemory())
    std::cerr << "mebpc: note: " << option << " " << text << " is more than this machine's "
              << format::formatMegabytes(getMachineMemory()) << "\n";
  return bytes;
}

format::WeightFormat readFormat(const std::string &option, const std::string &text) {
  if (std::optional<format::WeightFormat> weightFormat = format::parseWeightFormat(text))
    return *weightFormat;
  throw OptionError(option + " " + text + ": choose " + format::weightFormatNames);
}

/// A plan spills only where it is told to; where it is chosen, checkpoints may go.
Spill readSpill(const std::string &name, const Training &training, bool isChosen) {
  if (isForwardOnly(training.optimizer) && !name.empty() && name != "none")
    throw OptionError("--spill " + name + ": " + training.optimizer + " keeps no checkpoints and no state to spill");
  if (isForwardOnly(training.optimizer) || name == "none")
    return Spill::None;
  if (name.empty())
    return isChosen ? Spill::Checkpoints : Spill::None;
  return name == "all" ? Spill::All : Spill::Checkpoints;
}

/// "0-7", or one number.
LayerRange readLayers(const std::string &text) {
  std::istringstream stream(text);
  LayerRange layers;
  char dash = 0;
  bool isRead = static_cast<bool>(stream >> layers.first);
  layers.last = layers.first;
  if (isRead && stream >> dash)
    isRead = dash == '-' && static_cast<bool>(stream >> layers.last);
  if (!isRead || !(stream >> std::ws).eof() || layers.first < 0 || layers.last < layers.first)
    throw OptionError("--split-layers " + text + ": give the numbers of the first and the last layer, such as 0-7");
  return layers;
}

void readTexts(const Texts &texts, Compilation &out) {
  auto &[shape, lora, adapters, split, full, galore, head, routerLoss, storage, schedule, training, generation] =
      out.options;
  full.isChosen = texts.train == "full";
  split.isChosen = !texts.split.empty();
  if (!texts.splitLayers.empty())
    adapters.layers = readLayers(texts.splitLayers);
  if (!texts.memoryBudget.empty()) {
    training.budget = readSize("--memory-budget", texts.memoryBudget);
    out.budgetOption = "--memory-budget " + texts.memoryBudget;
  }
  if (!texts.maxSequenceFor.empty()) {
    training.budget = readSize("--max-seq-for", texts.maxSequenceFor);
    out.budgetOption = "--max-seq-for " + texts.maxSequenceFor;
    out.findLongest = true;
  }
  if (!texts.residentLimit.empty())
    training.residentLimit = readSize("--resident-limit", texts.residentLimit);
  storage.narrowActivations = texts.precision == "bf16";
  split.narrowsWire = texts.wire == "bf16" && !storage.narrowActivations;
  storage.matrices = readFormat("--weights", texts.weights);
  if (!texts.embeddingWeights.empty())
    storage.embeddings = readFormat("--embedding-weights", texts.embeddingWeights);
  else if (!isQuantised(format::storageOf(storage.matrices)))
    storage.embeddings = storage.matrices;
  if (!std::isfinite(lora.alpha) || lora.alpha == 0.0)
    throw OptionError("--lora-alpha " + std::to_string(lora.alpha) + ": give a finite number that is not 0");
  if (training.threads == 0)
    training.threads = std::max(1u, std::thread::hardware_concurrency());
  training.mostSpill = readSpill(texts.spill, training, training.budget || out.showFrontier);
  if (!training.budget)
    schedule.spill = training.mostSpill;
  const format::ObjectiveTraits &objective = *format::findObjective(texts.objective);
  training.sums = objective.sumsSequences || texts.accumulates;
  training.writes = objective.writes && out.generateLength.value_or(0) > 0;
  if (!texts.emit.empty())
    out.emit = texts.emit == "nn" ? Level::Nn : texts.emit == "train" ? Level::Train : Level::Exec;
}

std::string listObjectives(bool format::ObjectiveTraits::*holds) {
  return format::listed(format::namesOf(format::objectives, std::mem_fn(holds)));
}

/// Options that would be ignored beside the others, or that contradict them.
struct Refusal {
  bool holds; // with what the others say
  std::vector<std::string> options;
  std::string says; // behind an option's name: what is wrong, and what to do
};

/// "--rank-down and --rank-up".
std::string listRanks(const format::AdapterTraits &adapter) {
  std::string list;
  for (size_t i = 0; i < adapter.ranks; ++i)
    list += std::string(i ? " and --" : "--") + adapter.options[i];
  return list;
}

/// Of options that other adapters take.
std::vector<Refusal> listOthers(const format::AdapterTraits &chosen) {
  std::vector<Refusal> refusals;
  for (const format::AdapterTraits &other : format::adapters)
    for (const char *option : other.options)
      if (option && !chosen.takes(option)) {
        const bool isUsual = format::adapters[0].takes(option);
        refusals.push_back({true,
                            {std::string("--") + option},
                            std::string(": is not for --adapter ") + chosen.name +
                                (isUsual ? "; give " + listRanks(chosen)
                                         : "; leave it out, or give --adapter " + format::listAdapters(option))});
      }
  return refusals;
}

std::vector<Refusal> listRefusals(const CLI::App &app, const Texts &texts, const Options &options) {
  const Training &training = options.training;
  const std::string &optimizer = training.optimizer, &device = training.device;
  const format::ObjectiveTraits &objective = *format::findObjective(texts.objective);
  const format::AdapterTraits &adapter = *format::findAdapter(options.adapters.kind);
  const std::string kind = adapter.name, remotes = format::listAdapters();
  const bool isFull = options.full.isChosen, isRemote = adapter.isRemote, splits = options.split.isChosen;
  const bool hasGradients = !isForwardOnly(optimizer), isProjected = projectsGradients(optimizer);
  std::vector<Refusal> refusals = {
      {format::findDevice(std::string_view(device))->placesValues,
       {"--resident-limit", "--threads"},
       ": is not for --device " + device + "; leave it out"},
      {isFull,
       {"--lora-rank", "--lora-alpha", "--lora-targets"},
       ": is not for --train full; leave it out, or give --train lora"},
      {!isFull, {"--train-targets"}, ": is not for --train lora; leave it out, or give --train full"},
      {texts.wire == "f32" && options.storage.narrowActivations,
       {"--wire"},
       " f32: activations are bf16, and cross as they are; leave it out, or give --precision f32"},
      {!hasGradients, {"--accumulate", "--clip"}, ": " + optimizer + " computes no gradients; leave it out"},
      {objective.sumsSequences && (!hasGradients || isProjected),
       {"--objective"},
       " " + texts.objective + ": sums whole gradients, which --optimizer " + optimizer +
           " does not have; give another optimizer"},
      {texts.split != kind,
       {"--split"},
       " " + texts.split + ": needs adapters whose trained factor stays on the device; give --adapter " + texts.split},
      {isRemote && isFull, {"--adapter"}, " " + kind + ": is not for --train full; leave one of them out"},
      {!isRemote, {"--wire"}, ": is of what crosses between a device and a server; give --adapter " + remotes},
      {!splits && app.get_option("--wire")->count() == 0,
       {"--device-first", "--device-last"},
       ": says what --split keeps on the device; give --split " + remotes},
      {splits,
       {"--memory-budget", "--max-seq-for", "--spill", "--checkpoint-spacing", "--plan-json", "--frontier"},
       ": is not for --split, whose halves have a plan each; leave it out"},
      {splits, {"--packing"}, ": is not for --split, whose server does not know where samples start; leave it out"},
      {splits, {"--router-aux-loss-coef"}, ": is not for --split, whose server knows of no loss; leave it out"},
      {isProjected && !isFull,
       {"--optimizer"},
       " " + optimizer + ": is not for --train lora; give --train full, or another optimizer"},
      {!isProjected,
       {"--galore-rank"},
       ": is not for --optimizer " + optimizer + "; leave it out, or give --optimizer galore or qgalore"},
      {!options.head.hasValues,
       {"--value-adapter"},
       ": is an adapter of a value head's own; leave it out, or give --value-head"},
      {!objective.hasValues,
       {"--value-adapter"},
       ": is not for --objective " + texts.objective + "; leave it out, or give --objective " +
           listObjectives(&format::ObjectiveTraits::hasValues)},
      {isFull || isRemote,
       {"--value-head"},
       ": is not for " + (isFull ? "--train full" : "--adapter " + kind) + "; leave it out, or train LoRA"},
  };
  const std::vector<Refusal> others = listOthers(adapter);
  refusals.insert(refusals.end(), others.begin(), others.end());
  return refusals;
}

void refuseIgnored(const CLI::App &app, const Texts &texts, const Options &options) {
  for (const Refusal &refusal : listRefusals(app, texts, options))
    for (const std::string &option : refusal.options)
      if (refusal.holds && app.get_option(option)->count() > 0)
        throw OptionError(option + refusal.says);
}

void refuseValues(const Options &options) {
  for (auto [option, rank] :
       {std::pair("--lora-rank", options.lora.rank), std::pair("--galore-rank", options.galore.rank)})
    if (std::string wrong = findWrongRank(option, rank); !wrong.empty())
      throw OptionError(wrong);
  const format::AdapterTraits &adapter = *format::findAdapter(options.adapters.kind);
  Adapters::visit(options.adapters, [&](const char *option, const auto &value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int64_t>)
      if (adapter.takes(option))
        if (std::string wrong = findWrongRank((std::string("--") + option).c_str(), value); !wrong.empty())
          throw OptionError(wrong);
  });
  const Training &training = options.training;
  if (std::string wrong = findWrongMomentum(training); !wrong.empty()) {
    std::ostringstream number;
    number << training.momentum;
    throw OptionError("--momentum " + number.str() + ": " + wrong);
  }
}

/// A program's text has been made with its options; what is left to say is what becomes of it.
void refuseChoices(const CLI::App &app, const std::string &text) {
  static const std::set<std::string> known = {"model",       "--output", "--plan-only", "--explain-peak",
                                              "--plan-json", "--rates",  "--emit"};
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && known.count(option->get_single_name()) == 0 &&
        known.count("--" + option->get_single_name()) == 0)
      throw OptionError("--" + option->get_single_name() + ": " + text + " was planned with its own; leave it out");
}

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

} // namespace

std::optional<int> parseCommandLine(int argc, char **argv, Compilation &out) {
  auto &[shape, lora, adapters, split, full, galore, head, routerLoss, storage, schedule, training, generation] =
      out.options;
  training.threads = 0; // this machine's
  Texts texts;
  texts.precision = storage.narrowActivations ? "bf16" : "f32";
  texts.weights = format::nameOf(storage.matrices);
  CLI::App app{"Compiles an ONNX model into a bundle that trains within a planned amount of memory.", "mebpc"};
  app.add_option("model", out.input, "the ONNX file that `mebp export` wrote, or what --emit exec printed (.mlir)");
  app.add_option("-o,--output", out.output, "write the bundle to this folder, NAME.mebp");
  app.option_defaults()->group("Shape");
  app.add_option("--seq-len", out.sequence, "the longest sequence to train on, in tokens (default: as exported)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch", out.batch, "the largest batch, in sequences (default: as exported)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_flag("--packing", shape.packs,
               "let a step put several samples into one row, each with positions and attention of its own");
  app.add_option("--generate-len", out.generateLength,
                 "let the bundle generate text, prompt and answer together up to this many tokens")
      ->check(CLI::Range(0, 1 << 20));
  app.option_defaults()->group("Types");
  addShared(app, "precision", texts.precision)->check(CLI::IsMember({"bf16", "f32"}))->capture_default_str();
  addShared(app, "weights", texts.weights)->capture_default_str();
  addShared(app, "embedding-weights", texts.embeddingWeights);
  app.add_option("--weights-for", storage.rules,
                 "type of some of them by the layer's name, in which * stands for anything: "
                 "lm_head=int8,*.layers.0.*=bf16")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.option_defaults()->group("What is trained");
  addShared(app, "train", texts.train)->check(CLI::IsMember({"lora", "full"}))->capture_default_str();
  addShared(app, "train-targets", full.targets)->delimiter(',')->allow_extra_args(false)->capture_default_str();
  addShared(app, "lora-rank", lora.rank)->capture_default_str();
  addShared(app, "lora-alpha", lora.alpha)->capture_default_str();
  addShared(app, "lora-targets", lora.targets)->delimiter(',')->capture_default_str();
  app.option_defaults()->group("Remote adapters, and a model on two machines");
  app.add_option("--adapter", adapters.kind, describeAdapters())
      ->check(CLI::IsMember(format::namesOf(format::adapters)))
      ->capture_default_str();
  Adapters::visit(adapters, [&](const char *name, auto &value) {
    if constexpr (std::is_same_v<decltype(value), LayerRange &>)
      addShared(app, name, texts.splitLayers);
    else if constexpr (std::is_same_v<decltype(value), bool &>)
      addShared(app, name, value);
    else
      addShared(app, name, value)->capture_default_str();
  });
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
  app.add_option("--wire", texts.wire,
                 "type of what crosses between the halves (default: as --precision); bf16 under f32 halves the bytes "
                 "and rounds what crosses, so that gradients are those of the rounded model; without --split, one "
                 "process rounds alike")
      ->check(CLI::IsMember({"bf16", "f32"}));
  app.option_defaults()->group("Numbers that are drawn");
  app.add_option("--seed", lora.seed, "seed for the adapters' initial values")->capture_default_str();
  app.add_option("--random-weights", storage.randomSeed,
                 "draw random weights with this seed, for a --shape-only export");
  app.option_defaults()->group("The step that memory is planned for");
  addShared(app, "galore-rank", galore.rank)->capture_default_str();
  app.add_flag("--value-head", head.hasValues,
               "train a linear layer that gives a value of each token, too, as PPO needs it");
  app.add_flag("--value-adapter", training.hasValueAdapter,
               "with --value-head and --objective " + listObjectives(&format::ObjectiveTraits::hasValues) +
                   ", plan memory for an adapter of the value head's own, as mebp "
                   "train --value-model own has it");
  app.add_flag("--entropy-bonus", head.hasEntropyBonus,
               "let objectives depend on the entropy; the head's backward then takes a second sweep of the vocabulary");
  addShared(app, "router-aux-loss-coef", routerLoss.coefficient)->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--optimizer", training.optimizer,
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
  app.add_flag("--clip", training.keeps, "plan memory for clipping, which keeps all gradients of a step");
  app.add_option("--momentum", training.momentum, "with --optimizer sgd, plan for this momentum, which has to be kept")
      ->capture_default_str();
  app.option_defaults()->group("The machine");
  app.add_option("--device", training.device,
                 "plan memory, and choose the schedule, for this device: cpu, mlx (a GPU) or mlx-cpu")
      ->check(CLI::IsMember(format::namesOf(format::devices)))
      ->capture_default_str();
  app.add_option("--threads", training.threads, "plan memory for this many threads (default: all of this machine)")
      ->check(CLI::Range(1, 4096));
  app.add_option(
      "--rates", out.rates,
      "predict times from this file of mebp calibrate, or none for estimates that are the same on any machine "
      "(default: ~/.cache/mebp/rates.json, if it exists)");
  app.option_defaults()->group("Memory and time");
  CLI::Option *budget = app.add_option("--memory-budget", texts.memoryBudget,
                                       "choose the fastest plan with at most this peak, such as 64MiB");
  CLI::Option *frontier = app.add_flag("--frontier", out.showFrontier,
                                       "print what each budget buys, from the least peak to where more does not help, "
                                       "and stop")
                              ->excludes(budget);
  app.add_option("--chunk-size", schedule.chunk,
                 "process sequences in chunks of this many tokens; 0 for whole sequences")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->excludes(budget, frontier);
  app.add_option("--checkpoint-spacing", schedule.spacing,
                 "keep the input of every N-th layer and recompute the others")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->excludes(budget, frontier);
  app.add_option("--loss-rows", schedule.lossRows, "tokens in a tile of the loss")
      ->capture_default_str()
      ->excludes(budget, frontier);
  app.add_option("--loss-columns", schedule.lossColumns, "vocabulary entries in a tile of the loss")
      ->capture_default_str()
      ->excludes(budget, frontier);
  app.add_option(
         "--spill", texts.spill,
         "what a step may keep in a file on a disk: none, checkpoints, or all (what is trained and the optimizer's "
         "state, too); with a budget, no more than it needs (default: none; with a budget, checkpoints)")
      ->check(CLI::IsMember({"none", "checkpoints", "all"}));
  addShared(app, "resident-limit", texts.residentLimit);
  app.add_option("--max-seq-for", texts.maxSequenceFor,
                 "print the longest sequence that trains within this peak, such as 1GiB, and stop")
      ->excludes(budget, frontier);
  app.option_defaults()->group("What to print");
  app.add_flag("--plan-only", out.planOnly, "print the plan and write no bundle");
  app.add_flag("--explain-peak", out.explainPeak, "list what is in use at the peak");
  app.add_flag("--explain-wire", out.explainWire,
               "with --split, list what crosses between the halves: of which block, in which type, how many bytes");
  app.add_option("--plan-json", out.planJson, "write the plan to this file as JSON");
  app.add_option("--emit", texts.emit, "print the program at this level and stop")
      ->excludes(frontier)
      ->check(CLI::IsMember({"nn", "train", "exec"}));
  bool checksOptions = false;
  app.add_flag("--check-options", checksOptions, "check the other options, without a model, and stop");
  app.set_version_flag("--version", "mebpc " MEBP_VERSION, "print the version");

  try {
    app.parse(argc, argv);
    if (out.input.empty() && !checksOptions)
      throw CLI::RequiredError("model");
    for (std::string *path : {&out.input, &out.output, &out.rates, &out.planJson})
      *path = format::userPath(*path);
    if (isProgramText(out.input))
      refuseChoices(app, out.input);
    readTexts(texts, out);
    refuseIgnored(app, texts, out.options);
    if (app.get_option("--lora-targets")->count() == 0)
      lora.targets = CLI::detail::split(format::findAdapter(adapters.kind)->targets, ',');
    refuseValues(out.options);
    if (checksOptions)
      return 0;
  } catch (const CLI::Success &success) {
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    std::cerr << "mebpc: " << error.what() << "; see mebpc --help\n";
    return badInput;
  } catch (const OptionError &error) {
    std::cerr << "mebpc: " << error.what() << "\n";
    return badInput;
  }
  return std::nullopt;
}

} // namespace mebp
