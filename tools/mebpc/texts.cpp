// SPDX-License-Identifier: Apache-2.0
#include "texts.h"

#include "format/byte_size.h"
#include "platform/free_memory.h"
#include "platform/platform.h"

#include <cmath>
#include <functional>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace mebp {

namespace {

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

/// Exactly: "64MB", "2630KB" or "12345B".
std::string writeSize(uint64_t bytes) {
  for (auto [name, unit] : {std::pair("MB", uint64_t(1'000'000)), {"KB", uint64_t(1'000)}})
    if (bytes % unit == 0)
      return std::to_string(bytes / unit) + name;
  return std::to_string(bytes) + "B";
}

std::string withCommas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t end = text.size(); end > 3; end -= 3)
    text.insert(end - 3, ",");
  return text;
}

format::WeightFormat readFormat(const std::string &option, const std::string &text) {
  if (std::optional<format::WeightFormat> weightFormat = format::parseChosenFormat(text))
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

/// "0-7", or one number. Nothing where it is neither.
std::optional<LayerRange> readRange(const std::string &text) {
  std::istringstream stream(text);
  LayerRange layers;
  char dash = 0;
  bool isRead = static_cast<bool>(stream >> layers.first);
  layers.last = layers.first;
  if (isRead && stream >> dash)
    isRead = dash == '-' && static_cast<bool>(stream >> layers.last);
  if (!isRead || !(stream >> std::ws).eof() || layers.first < 0 || layers.last < layers.first)
    return std::nullopt;
  return layers;
}

LayerRange readSplitLayers(const std::string &text) {
  if (std::optional<LayerRange> layers = readRange(text))
    return *layers;
  throw OptionError("--split-layers " + text + ": give the numbers of the first and the last layer, such as 0-7");
}

/// "last:8", or a range.
LayerChoice readLoraLayers(const std::string &text) {
  constexpr std::string_view lastOnes = "last:";
  const bool isLast = text.compare(0, lastOnes.size(), lastOnes) == 0;
  const std::optional<LayerRange> numbers = readRange(isLast ? text.substr(lastOnes.size()) : text);
  if (isLast && numbers && numbers->first == 0 && numbers->last == 0)
    throw OptionError("--lora-layers " + text + ": leaves no layer to train; give last:1 or more");
  if (!numbers || (isLast && numbers->first != numbers->last))
    throw OptionError("--lora-layers " + text +
                      ": give the last ones, such as last:8, or the numbers of the first and the last, such as 20-23");
  return isLast ? LayerChoice{numbers->last, {}} : LayerChoice{0, *numbers};
}

} // namespace

void readTexts(const Texts &texts, Compilation &out) {
  auto &[shape, lora, adapters, layers, split, full, galore, head, routerLoss, storage, schedule, training,
         generation] = out.options;
  full.isChosen = texts.train == "full";
  split.isChosen = !texts.split.empty();
  if (!texts.splitLayers.empty())
    adapters.layers = readSplitLayers(texts.splitLayers);
  if (texts.loraLayers)
    layers = readLoraLayers(*texts.loraLayers);
  if (texts.memoryBudget == "auto") {
    const std::optional<uint64_t> free = platform::findFreeBytes();
    if (!free)
      throw OptionError("--memory-budget auto: this system does not tell what is free; give a size, such as 512MiB");
    training.budget = platform::steppedDown(*free / 4 * 3);
    out.budgetOption = "--memory-budget " + writeSize(training.budget);
    out.budgetReason =
        withCommas((*free + 500'000) / 1'000'000) + " MB are free, a quarter of which is left to all else";
  } else if (!texts.memoryBudget.empty()) {
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
  out.followsFile = texts.weights.empty();
  out.choosesEmbeddings = !texts.embeddingWeights.empty();
  if (!out.followsFile)
    storage.matrices = readFormat("--weights", texts.weights);
  if (out.choosesEmbeddings)
    storage.embeddings = readFormat("--embedding-weights", texts.embeddingWeights);
  else if (!isQuantised(format::storageOf(storage.matrices)))
    storage.embeddings = storage.matrices;
  if (!std::isfinite(lora.alpha) || lora.alpha == 0.0)
    throw OptionError("--lora-alpha " + std::to_string(lora.alpha) + ": give a finite number that is not 0");
  if (!(lora.dropout >= 0 && static_cast<float>(lora.dropout) < 1))
    throw OptionError("--lora-dropout " + std::to_string(lora.dropout) + ": give a number from 0 to below 1");
  if (training.threads == 0)
    training.threads = platform::availableThreads();
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

} // namespace mebp
