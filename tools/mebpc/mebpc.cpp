// SPDX-License-Identifier: Apache-2.0
//
// mebpc: an ONNX model in, a bundle out.
#include "compiler/pipeline/Compile.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace {

constexpr int badInput = 2;
} // namespace

int main(int argc, char **argv) {
  mebp::CompileOptions options;
  std::string train = "lora";
  CLI::App app{"Compiles an ONNX model into a bundle that trains in known memory.", "mebpc"};
  app.add_option("model", options.input, "model.onnx, as `mebp export` makes it")->required();
  app.add_option("-o,--output", options.output, "the bundle, NAME.mebp");
  app.add_option("--seq-len", options.sequence, "the longest sequence (as exported)")->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch", options.batch, "the largest batch (as exported)")->check(CLI::Range(1, 1 << 16));
  app.add_option("--precision", options.precision, "of activations: bf16 or f32")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  app.add_option("--weights", options.weights, "f32, bf16, int8, int4 or int4-sym")->capture_default_str();
  app.add_option("--embedding-weights", options.embeddingWeights,
                 "the same for embeddings and the head (int8 beside quantised weights)");
  app.add_option("--train", train, "what is trained: lora")->capture_default_str();
  app.add_option("--lora-rank", options.loraRank, "inner size of the adapters")->capture_default_str();
  app.add_option("--lora-alpha", options.loraAlpha, "adapters are scaled by alpha / rank")->capture_default_str();
  app.add_option("--lora-targets", options.loraTargets, "all-linear, or names of linear layers")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the adapters' initial values")->capture_default_str();
  app.add_option("--random-weights", options.randomWeights,
                 "draw the weights with this seed, for --shape-only exports");
  app.add_option("--optimizer", options.optimizer, "what the plan counts: adamw, sgd or mezo")
      ->check(CLI::IsMember({"adamw", "sgd", "mezo"}))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "what the plan counts workspace for (this machine's)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--rates", options.rates,
                 "how fast a machine is, as mebp calibrate writes it; none: estimates, the same on any machine "
                 "(~/.cache/mebp/rates.json, where it is there)");
  CLI::Option *budget =
      app.add_option("--memory-budget", options.memoryBudget, "64MiB: the fastest plan whose peak is not higher");
  app.add_option("--chunk-size", options.schedule.chunk, "positions of a chunk along the sequence; 0: whole sequences")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--checkpoint-spacing", options.schedule.spacing,
                 "keep the input of every N-th layer, and compute the others again")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--loss-rows", options.schedule.lossRows, "token rows in a tile of the loss")
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--loss-columns", options.schedule.lossColumns, "vocabulary rows in a tile of the loss")
      ->capture_default_str()
      ->excludes(budget);
  app.add_option("--spill", options.spill,
                 "what goes into a file on a disk in each step: none, checkpoints, or all, the optimizer's state, too; "
                 "within a budget no more than needed (none; within a budget checkpoints)")
      ->check(CLI::IsMember({"none", "checkpoints", "all"}));
  app.add_option("--resident-limit", options.residentLimit,
                 "128MiB: of the mapped weights, a run holds no more in memory at once");
  app.add_option("--max-seq-for", options.maxSequenceFor, "1GiB: say how long a sequence trains in that, and stop")
      ->excludes(budget);
  app.add_flag("--plan-only", options.planOnly, "plan and print, write no bundle");
  app.add_flag("--explain-peak", options.explainPeak, "list what is alive at the peak");
  app.add_option("--plan-json", options.planJson, "write the plan to this file");
  app.add_option("--emit", options.emit, "print nn, train or exec and stop")
      ->check(CLI::IsMember({"nn", "train", "exec"}));

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return app.exit(success);
  } catch (const CLI::ParseError &error) {
    std::cerr << "mebpc: " << error.what() << "; see mebpc --help\n";
    return badInput;
  }
  if (train != "lora") {
    std::cerr << "mebpc: --train " << train << ": this version trains LoRA adapters only\n";
    return badInput;
  }
  return mebp::compile(options);
}
