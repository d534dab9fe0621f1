// SPDX-License-Identifier: Apache-2.0
#include "refusals.h"

#include "format/adapters.h"
#include "format/optimizers.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <set>
#include <sstream>

namespace mebp {

namespace {

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
       {"--lora-rank", "--lora-alpha", "--rslora", "--lora-dropout", "--lora-targets"},
       ": is not for --train full; leave it out, or give --train lora"},
      {!isFull, {"--train-targets"}, ": is not for --train lora; leave it out, or give --train full"},
      {texts.wire == "f32" && options.storage.narrowActivations,
       {"--wire"},
       " f32: activations are bf16, and cross as they are; leave it out, or give --precision f32"},
      {!hasGradients, {"--accumulate", "--clip"}, ": " + optimizer + " computes no gradients; leave it out"},
      {!hasGradients && options.lora.dropout != 0,
       {"--lora-dropout"},
       ": " + optimizer + " compares losses, which a mask would change; leave it out, or give another optimizer"},
      {options.lora.dropout != 0 && objective.sumsSequences,
       {"--lora-dropout"},
       ": is not for --objective " + texts.objective + ", which compares probabilities; leave it out"},
      {objective.sumsSequences && (!hasGradients || isProjected),
       {"--objective"},
       " " + texts.objective + ": sums whole gradients, which --optimizer " + optimizer +
           " does not have; give another optimizer"},
      {texts.split != kind,
       {"--split"},
       " " + texts.split + ": needs adapters whose trained factor stays on the device; give --adapter " + texts.split},
      {isRemote && isFull, {"--adapter"}, " " + kind + ": is not for --train full; leave one of them out"},
      {isRemote, {"--lora-layers"}, ": is not for --adapter " + kind + "; leave it out, or give --split-layers"},
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
       ": is not for --optimizer " + optimizer + "; leave it out, or give --optimizer " +
           format::listed(format::namesOf(format::optimizers, std::mem_fn(&format::OptimizerTraits::projects)))},
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

} // namespace

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

void refuseChoices(const CLI::App &app, const std::string &text) {
  static const std::set<std::string> known = {"model",       "--output", "--plan-only", "--explain-peak",
                                              "--plan-json", "--rates",  "--emit"};
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && known.count(option->get_single_name()) == 0 &&
        known.count("--" + option->get_single_name()) == 0)
      throw OptionError("--" + option->get_single_name() + ": " + text + " was planned with its own; leave it out");
}

} // namespace mebp
