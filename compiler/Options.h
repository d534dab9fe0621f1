// SPDX-License-Identifier: Apache-2.0
//
// What a compilation is asked for, as every stage takes it. Defaults stand here and nowhere else.
#pragma once

#include "format/optimizers.h"
#include "format/weight_format.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mebp {

/// The largest step that is compiled for.
struct StepShape {
  int64_t batch = 1;
  int64_t sequence = 256;
};

struct Lora {
  int64_t rank = 8;
  double alpha = 16.0;
  std::vector<std::string> targets = {"all-linear"};
  uint64_t seed = 0; // of the initial values
};

/// Parameters of the model that are trained themselves, instead of adapters.
struct Full {
  bool isChosen = false;
  std::vector<std::string> targets = {"all-linear"};
};

struct Storage {
  format::WeightFormat matrices = format::WeightFormat::Int4;
  format::WeightFormat embeddings = format::WeightFormat::Int8; // tables and the head
  std::vector<std::string> rules;                               // PATTERN=STORAGE, before both
  bool narrowActivations = true;                                // bf16 instead of f32
  std::optional<uint64_t> randomSeed;                           // draws the weights that have no data
};

/// What lies in a file on a disk instead of in memory. Each includes those before it.
enum class Spill { None, Checkpoints, All }; // all: the optimizer's state, too

/// As the command line calls it: "none", "checkpoints" or "all".
const char *nameOf(Spill spill);

/// What trades time for memory: the choices that a plan consists of.
struct Schedule {
  int64_t chunk = 0;   // positions of a chunk along the sequence; 0: layers run on whole sequences
  int64_t spacing = 1; // every how many layers a checkpoint is kept; the others are computed again
  int64_t lossRows = 128;
  int64_t lossColumns = 2048;
  Spill spill = Spill::None;
};

/// "chunks of 64 tokens, one checkpoint in 2 layers, loss in tiles of 128 x 2048".
std::string describeSchedule(const Schedule &schedule);

/// What the plan counts on when the bundle trains.
struct Training {
  std::string optimizer = format::optimizers[0].name;
  int64_t threads = 1;
  Spill mostSpill = Spill::None; // what a schedule that is chosen may come to
  uint64_t budget = 0;           // what the peak may be, in bytes; 0: whatever it comes to
  uint64_t residentLimit = 0;    // of the mapped weights in memory, in bytes; 0: the system decides
};

/// Text, one token after another.
struct Generation {
  int64_t positions = 0; // that a prompt and its answer may have together; 0: the bundle does not generate
};

struct Options {
  StepShape shape;
  Lora lora;
  Full full;
  Storage storage;
  Schedule schedule;
  Training training;
  Generation generation;
};

/// The rows of tokens that a program of generation takes at once: a chunk of a prompt, or two positions of each batch
/// item, whichever is more.
int64_t countDecodeRows(const Options &options);

/// Whether an optimizer takes losses instead of gradients, and then no backward runs.
bool isForwardOnly(std::string_view optimizer);
/// The arrays as long as the parameters that it keeps.
uint32_t countStateArrays(std::string_view optimizer);

} // namespace mebp
