// SPDX-License-Identifier: Apache-2.0
//
// What a compilation is asked for, as every stage takes it. Defaults stand here and nowhere else.
#pragma once

#include "format/devices.h"
#include "format/weight_format.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mebp {

/// The largest step that is compiled for.
struct StepShape {
  int64_t batch = 1;
  int64_t sequence = 256;
  bool packs = false; // several samples into one row
};

struct Lora {
  int64_t rank = 8;
  double alpha = 16.0;
  bool isRankStabilized = false; // scaled by alpha / sqrt(rank) instead of alpha / rank
  double dropout = 0;            // the share of what an adapter reads that a step zeroes
  std::vector<std::string> targets = {"all-linear"};
  uint64_t seed = 0; // of the initial values
};

/// One after the other.
struct LayerRange {
  int64_t first = 0, last = -1; // -1: the model's last
};

/// The kind of adapters, and what those take that are not LoRA's: each some of these (format/adapters.h, which is not
/// included here: what is added to it is to compile little again).
struct Adapters {
  std::string kind = "lora";
  int64_t rankDown = 32, rankUp = 32; // numbers of a token that come from a layer, and that go back to it
  bool shareA = false;                // one A for layers that read one value
  LayerRange layers;                  // that are adapted

  /// Each by the name of its option.
  template <typename AnyAdapters, typename Visitor> static void visit(AnyAdapters &adapters, Visitor &&visitor) {
    visitor("rank-down", adapters.rankDown);
    visitor("rank-up", adapters.rankUp);
    visitor("share-a", adapters.shareA);
    visitor("split-layers", adapters.layers);
  }
};

/// The layers that are trained, as --lora-layers says them: so many last ones, or a range by the numbers in their
/// names. All of them where neither is given.
struct LayerChoice {
  int64_t lastOnes = 0;
  LayerRange range;

  bool isAll() const { return lastOnes == 0 && range.first == 0 && range.last < 0; }
};

/// The model over two machines: a device, which has the text and the adapter, and a server, which has layers.
struct Split {
  bool isChosen = false;
  int64_t deviceFirst = 0, deviceLast = 0; // layers that stay on the device
  bool narrowsWire = false;                // what crosses is bf16, where activations are f32
};

/// Parameters of the model that are trained themselves, instead of adapters.
struct Full {
  bool isChosen = false;
  std::vector<std::string> targets = {"all-linear"};
};

/// Gradients of the model's matrices that are projected to a subspace.
struct Galore {
  int64_t rank = 64;
};

/// What the head gives and takes beside log-probabilities.
struct Head {
  bool hasValues = false;       // a trained linear layer to one value of each row
  bool hasEntropyBonus = false; // the objective may depend on the entropy
};

/// How evenly a mixture's experts are used, beside the objective.
struct RouterLoss {
  double coefficient = 0; // 0: it is not computed
};

struct Storage {
  format::WeightFormat matrices = format::WeightFormat::Int4;
  format::WeightFormat embeddings = format::WeightFormat::Int8; // tables and the head
  std::vector<std::string> rules;                               // PATTERN=STORAGE, before both
  bool narrowActivations = true;                                // bf16 instead of f32
  std::optional<uint64_t> randomSeed;                           // draws the weights that have no data
};

/// What lies in a file on a disk instead of in memory. Each includes those before it.
enum class Spill { None, Checkpoints, All }; // all: what is trained and the optimizer's state, too

/// As the command line calls it: "none", "checkpoints" or "all".
const char *nameOf(Spill spill);

/// What layers keep of their forward instead of computing it again: what is worth its memory at a price, in seconds for
/// a byte of each token's row (compiler/keep). An infinite price: nothing.
struct Keep {
  int64_t layers = 0; // the first ones, which keep by `price`, the others by `restPrice`
  double price = std::numeric_limits<double>::infinity(), restPrice = std::numeric_limits<double>::infinity();
};

/// What trades time for memory: the choices that a plan consists of.
struct Schedule {
  int64_t chunk = 0;   // positions of a chunk along the sequence; 0: layers run on whole sequences
  int64_t spacing = 1; // every how many layers a checkpoint is kept; the others are computed again
  int64_t lossRows = 128;
  int64_t lossColumns = 2048;
  Spill spill = Spill::None;
  Keep keep;
};

/// The first of format/optimizers.h, which is not included here: what is added to it is to compile little again.
const char *getDefaultOptimizer();

/// What the plan counts on when the bundle trains.
struct Training {
  std::string optimizer = getDefaultOptimizer();
  double momentum = 0; // SGD's
  std::string device = format::devices[0].name;
  int64_t threads = 1;
  Spill mostSpill = Spill::None; // what a schedule that is chosen may come to
  uint64_t budget = 0;           // what the peak may be, in bytes; 0: whatever it comes to
  uint64_t residentLimit = 0;    // of the mapped weights in memory, in bytes; 0: the system decides
  bool sums = false;             // gradients of several sequences, as preferences and rewards do
  bool keeps = false;            // all gradients of a step, as clipping does, which needs their norm
  bool hasValueAdapter = false;  // a second one, of the value head's own
  bool writes = false;           // the text that it trains on: what generating needs is beside
};

/// What a plan calls the memory of text that training writes.
constexpr const char *writingBuffer = "writing";

/// Text, one token after another.
struct Generation {
  int64_t positions = 0; // that a prompt and its answer may have together; 0: the bundle does not generate
};

/// The levels that a compilation can stop after, in their order.
enum class Level { Nn, Train, Exec };

struct Options {
  StepShape shape;
  Lora lora;
  Adapters adapters;
  LayerChoice layers;
  Split split;
  Full full;
  Galore galore;
  Head head;
  RouterLoss routerLoss;
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
/// Whether it trains projected gradients, which a bundle is compiled for.
bool projectsGradients(std::string_view optimizer);
/// Whether it changes weights that are stored in eight bits.
bool changesInt8(std::string_view optimizer);
/// An option's name as an attribute's or a manifest's, which have _ for -.
std::string nameField(std::string_view option);
/// What is wrong with a rank that the option gives, and what to do; empty: nothing.
std::string findWrongRank(const char *option, int64_t rank);
/// What is wrong with the momentum, and what to do; empty: nothing.
std::string findWrongMomentum(const Training &training);
/// Whether anything is kept from step to step.
bool keepsState(const Training &training);
/// "sgd with momentum".
std::string describeOptimizer(const Training &training);

} // namespace mebp
