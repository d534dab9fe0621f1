// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "format/byte_size.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace mebp {

namespace {

constexpr int badInput = 2;

/// What an option says cannot be meant.
struct OptionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What is written as text and meant as something else.
struct Texts {
  std::string precision, weights, embeddingWeights, memoryBudget, maxSequenceFor, residentLimit, spill, emit;
  std::string train = "lora";
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

WeightFormat readFormat(const std::string &option, const std::string &text) {
  if (std::optional<WeightFormat> format = parseWeightFormat(text))
    return *format;
  throw OptionError(option + " " + text + ": there are f32, bf16, int8, int4 and int4-sym");
}

/// Without a budget a plan spills only where it is told to; within one, checkpoints may go.
Spill readSpill(const std::string &name, const Training &training) {
  if (isForwardOnly(training.optimizer) && !name.empty() && name != "none")
    throw OptionError("--spill " + name + ": " + training.optimizer + " keeps no checkpoints and no state to spill");
  if (isForwardOnly(training.optimizer) || name == "none")
    return Spill::None;
  if (name.empty())
    return training.budget ? Spill::Checkpoints : Spill::None;
  return name == "all" && countStateArrays(training.optimizer) ? Spill::All : Spill::Checkpoints;
}

void readTexts(const Texts &texts, Compilation &out) {
  auto &[shape, lora, storage, schedule, training] = out.options;
  if (texts.train != "lora")
    throw OptionError("--train " + texts.train + ": this version trains LoRA adapters only");
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
  storage.matrices = readFormat("--weights", texts.weights);
  if (!texts.embeddingWeights.empty())
    storage.embeddings = readFormat("--embedding-weights", texts.embeddingWeights);
  else if (!isQuantized(storage.matrices))
    storage.embeddings = storage.matrices;
  if (!std::isfinite(lora.alpha) || lora.alpha == 0.0)
    throw OptionError("--lora-alpha " + std::to_string(lora.alpha) + ": give a finite number that is not 0");
  if (training.threads == 0)
    training.threads = std::max(1u, std::thread::hardware_concurrency());
  training.mostSpill = readSpill(texts.spill, training);
  if (!training.budget)
    schedule.spill = training.mostSpill;
  if (!texts.emit.empty())
    out.emit = texts.emit == "nn" ? Level::Nn : texts.emit == "train" ? Level::Train : Level::Exec;
}

} // namespace

std::optional<int> parseCommandLine(int argc, char **argv, Compilation &out) {
  auto &[shape, lora, storage, schedule, training] = out.options;
  training.threads = 0; // this machine's
  Texts texts;
  texts.precision = storage.narrowActivations ? "bf16" : "f32";
  texts.weights = nameOf(storage.matrices);
  CLI::App app{"Compiles an ONNX model into a bundle that trains in known memory.", "mebpc"};
  app.add_option("model", out.input, "model.onnx, as `mebp export` makes it")->required();
  app.add_option("-o,--output", out.output, "the bundle, NAME.mebp");
  app.add_option("--seq-len", out.sequence, "the longest sequence (as exported)")->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch", out.batch, "the largest batch (as exported)")->check(CLI::Range(1, 1 << 16));
  app.add_option("--precision", texts.precision, "of activations: bf16 or f32")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  app.add_option("--weights", texts.weights, "f32, bf16, int8, int4 or int4-sym")->capture_default_str();
  app.add_option("--embedding-weights", texts.embeddingWeights,
                 "the same for embeddings and the head (int8 beside quantised weights)");
  app.add_option("--train", texts.train, "what is trained: lora")->capture_default_str();
  app.add_option("--lora-rank", lora.rank, "inner size of the adapters")->capture_default_str();
  app.add_option("--lora-alpha", lora.alpha, "adapters are scaled by alpha / rank")->capture_default_str();
  app.add_option("--lora-targets", lora.targets, "all-linear, or names of linear layers")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seed", lora.seed, "of the adapters' initial values")->capture_default_str();
  app.add_option("--random-weights", storage.randomSeed, "draw the weights with this seed, for --shape-only exports");
  app.add_option("--optimizer", training.optimizer, "what the plan counts: " + format::listOptimizers())
      ->check(CLI::IsMember(format::optimizerNames()))
      ->capture_default_str();
  app.add_option("--threads", training.threads, "what the plan counts workspace for (this machine's)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--rates", out.rates,
                 "how fast a machine is, as mebp calibrate writes it; none: estimates, the same on any machine "
                 "(~/.cache/mebp/rates.json, where it is there)");
  CLI::Option *budget =
      app.add_option("--memory-budget", texts.memoryBudget, "64MiB: the fastest plan whose peak is not higher");
  app.add_option("--chunk-size", schedule.chunk, "positions of a chunk along the sequence; 0: whole sequences")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--checkpoint-spacing", schedule.spacing,
                 "keep the input of every N-th layer, and compute the others again")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--loss-rows", schedule.lossRows, "token rows in a tile of the loss")
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--loss-columns", schedule.lossColumns, "vocabulary rows in a tile of the loss")
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--spill", texts.spill,
                 "what goes into a file on a disk in each step: none, checkpoints, or all, the optimizer's state, too; "
                 "within a budget no more than needed (none; within a budget checkpoints)")
      ->check(CLI::IsMember({"none", "checkpoints", "all"}));
  app.add_option("--resident-limit", texts.residentLimit,
                 "128MiB: of the mapped weights, a run holds no more in memory at once");
  app.add_option("--max-seq-for", texts.maxSequenceFor, "1GiB: say how long a sequence trains in that, and stop")
      ->excludes(budget);
  app.add_flag("--plan-only", out.planOnly, "plan and print, write no bundle");
  app.add_flag("--explain-peak", out.explainPeak, "list what is alive at the peak");
  app.add_option("--plan-json", out.planJson, "write the plan to this file");
  app.add_option("--emit", texts.emit, "print nn, train or exec and stop")
      ->check(CLI::IsMember({"nn", "train", "exec"}));

  try {
    app.parse(argc, argv);
    readTexts(texts, out);
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
