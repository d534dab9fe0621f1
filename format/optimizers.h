// SPDX-License-Identifier: Apache-2.0
//
// The optimizers, and what each keeps of a tensor that it trains: for everyone that takes one by its name, counts its
// memory, saves its state or runs it. How it updates is in runtime/optim/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/alignment.h"
#include "format/projection.h"
#include "format/storage.h"
#include "format/tables.h"

namespace mebp::format {

// A trained tensor. A vector has one row.
struct TrainedShape {
  uint64_t rows = 0, columns = 0;
  uint64_t rank = 0; // of the subspace that its gradient is projected to; 0: it is not

  constexpr uint64_t elements() const { return rows * columns; }
  // As it comes to the optimizer.
  constexpr ThinShape gradient() const { return rank ? projectedShape(rows, columns, rank) : ThinShape{rows, columns}; }
  constexpr uint64_t gradientElements() const { return gradient().rows * gradient().columns; }
};

constexpr uint64_t sketchRank(const TrainedShape &tensor) {
  return sketchRank(tensor.rows, tensor.columns, tensor.rank);
}
constexpr uint64_t sketchWorkspaceBytes(const TrainedShape &tensor) {
  return sketchWorkspaceBytes(tensor.rows, tensor.columns, sketchRank(tensor));
}
constexpr uint64_t svdWorkspaceBytes(const TrainedShape &tensor) {
  return svdWorkspaceBytes(tensor.rows, tensor.columns, tensor.rank);
}

// Options that decide what is kept.
struct StateOptions {
  bool hasMomentum = false; // SGD's
};
constexpr double momentumBelow = 1;

struct ArrayShape {
  uint64_t rows = 0, columns = 0;

  constexpr uint64_t elements() const { return rows * columns; }
};

// Of an element, by the names of safetensors. Two of four bits are one U8.
enum class KeptType { F32, BF16, U8, I8, I64, F16 };
constexpr const char *nameOf(KeptType type) {
  constexpr const char *names[] = {"F32", "BF16", "U8", "I8", "I64", "F16"};
  return names[static_cast<int>(type)];
}
constexpr uint64_t bytesOf(KeptType type) {
  constexpr uint64_t bytes[] = {4, 2, 1, 1, 8, 2};
  return bytes[static_cast<int>(type)];
}

// One that is kept from step to step. It begins as zeros.
struct KeptArray {
  const char *name = nullptr; // in a saved state, behind the tensor's own
  KeptType type = KeptType::F32;
  ArrayShape (*shape)(const TrainedShape &tensor, const StateOptions &options) = nullptr; // empty: not kept of this one
  bool isRead = false; // by programs, so that it stays in memory

  constexpr uint64_t bytes(const TrainedShape &tensor, const StateOptions &options) const {
    return name ? shape(tensor, options).elements() * bytesOf(type) : 0;
  }
};
constexpr uint32_t maximumKept = 12;

struct OptimizerTraits {
  const char *name;
  int number;       // of mebp_optimizer in mebp.h; never given twice
  bool forwardOnly; // takes losses instead of a gradient
  KeptArray kept[maximumKept] = {};
  uint64_t (*scratch)(const TrainedShape &tensor) = nullptr; // bytes that an update needs meanwhile; null: none
  bool projects = false;            // takes projected gradients, from bundles that were compiled for it alone
  Storage projector = Storage::F32; // as programs read it
  bool changesInt8 = false;         // trains weights that are stored so
};

// Where an array of this name is among those that an optimizer keeps, or maximumKept.
constexpr uint32_t findKept(const OptimizerTraits &traits, std::string_view name) {
  uint32_t index = 0;
  while (index < maximumKept && !(traits.kept[index].name && name == traits.kept[index].name))
    ++index;
  return index;
}
// A projector in f32; of one in four bits there are codes, as a weight of its shape has them, and scales and minima.
constexpr std::string_view projectorArray = "projector", projectorCodes = "projector.codes",
                           periodArray = "subspace.period", projectorScales = "projector.scales",
                           projectorMinima = "projector.minima";

// Shapes of arrays.
constexpr ArrayShape likeTheTensor(const TrainedShape &tensor, const StateOptions &) {
  return {tensor.rows, tensor.columns};
}
constexpr ArrayShape likeTheGradient(const TrainedShape &tensor, const StateOptions &) {
  return {tensor.gradient().rows, tensor.gradient().columns};
}
constexpr ArrayShape ofProjector(const TrainedShape &tensor, const StateOptions &) {
  const ThinShape shape = factorShape(tensor.rows, tensor.columns, tensor.rank);
  return tensor.rank ? ArrayShape{shape.rows, shape.columns} : ArrayShape();
}
constexpr ArrayShape ifMomentum(const TrainedShape &tensor, const StateOptions &options) {
  return options.hasMomentum ? likeTheTensor(tensor, options) : ArrayShape();
}
// The update in the subspace.
constexpr uint64_t scratchOfGalore(const TrainedShape &tensor) {
  return tensor.rank ? tensor.gradientElements() * sizeof(float) : 0;
}
// As bitsandbytes has it: codes of eight bits and the largest magnitude of every block; small tensors stay f32.
constexpr uint64_t codedBlock = 256, leastCoded = 4096;
constexpr ArrayShape ifSmall(const TrainedShape &tensor, const StateOptions &options) {
  return tensor.gradientElements() < leastCoded ? likeTheGradient(tensor, options) : ArrayShape();
}
constexpr ArrayShape ifCoded(const TrainedShape &tensor, const StateOptions &options) {
  return tensor.gradientElements() < leastCoded ? ArrayShape() : likeTheGradient(tensor, options);
}
constexpr ArrayShape ofCodedBlocks(const TrainedShape &tensor, const StateOptions &) {
  const uint64_t elements = tensor.gradientElements();
  return elements < leastCoded ? ArrayShape() : ArrayShape{1, (elements - 1) / codedBlock + 1};
}

// Q-GaLore: a projector of four bits, and what decides when it is found anew.
constexpr uint64_t similaritiesKept = 5; // queue_size
// A refresh is of the update whose number it has.
enum PeriodNumber : uint32_t { Period, Refreshes, SimilaritiesSeen, LastRefresh, PeriodNumbers };
constexpr ArrayShape ofProjectorCodes(const TrainedShape &tensor, const StateOptions &options) {
  const ArrayShape shape = ofProjector(tensor, options);
  return {shape.rows, rowBytesOf(Storage::Int4, shape.columns)};
}
constexpr ArrayShape ofProjectorGroups(const TrainedShape &tensor, const StateOptions &options) {
  const ArrayShape shape = ofProjector(tensor, options);
  return {shape.rows, groupsOf(Storage::Int4, shape.columns)};
}
constexpr ArrayShape ofPeriod(const TrainedShape &tensor, const StateOptions &) {
  return tensor.rank ? ArrayShape{1, PeriodNumbers} : ArrayShape();
}
constexpr ArrayShape ofSimilarities(const TrainedShape &tensor, const StateOptions &) {
  return tensor.rank ? ArrayShape{1, similaritiesKept} : ArrayShape();
}
constexpr ArrayShape ofLeadingVector(const TrainedShape &tensor, const StateOptions &) {
  return tensor.rank ? ArrayShape{1, smallerSide(tensor.rows, tensor.columns)} : ArrayShape();
}
// The projector and the update in the subspace, both f32; of a matrix that is not projected, the update.
constexpr uint64_t scratchOfQGalore(const TrainedShape &tensor) {
  const ThinShape projector = factorShape(tensor.rows, tensor.columns, tensor.rank);
  return tensor.rows > 1 ? (tensor.gradientElements() + projector.rows * projector.columns) * sizeof(float) : 0;
}

// The default first.
inline constexpr OptimizerTraits optimizers[] = {
    {"adamw", 1, false, {{"exp_avg", KeptType::F32, likeTheTensor}, {"exp_avg_sq", KeptType::F32, likeTheTensor}}},
    {"sgd", 0, false, {{"momentum_buffer", KeptType::F32, ifMomentum}}},
    {"lion", 3, false, {{"exp_avg", KeptType::F32, likeTheTensor}}},
    {"adamw8bit",
     4,
     false,
     {{"exp_avg", KeptType::F32, ifSmall},
      {"exp_avg_sq", KeptType::F32, ifSmall},
      {"exp_avg.codes", KeptType::U8, ifCoded},
      {"exp_avg.absmax", KeptType::F32, ofCodedBlocks},
      {"exp_avg_sq.codes", KeptType::U8, ifCoded},
      {"exp_avg_sq.absmax", KeptType::F32, ofCodedBlocks}}},
    {"galore",
     5,
     false,
     {{"projector", KeptType::F32, ofProjector, true},
      {"exp_avg", KeptType::F32, likeTheGradient},
      {"exp_avg_sq", KeptType::F32, likeTheGradient}},
     scratchOfGalore,
     true},
    {"qgalore",
     6,
     false,
     {{"exp_avg", KeptType::F32, ifSmall},
      {"exp_avg_sq", KeptType::F32, ifSmall},
      {"exp_avg.codes", KeptType::U8, ifCoded},
      {"exp_avg.absmax", KeptType::F32, ofCodedBlocks},
      {"exp_avg_sq.codes", KeptType::U8, ifCoded},
      {"exp_avg_sq.absmax", KeptType::F32, ofCodedBlocks},
      {"projector.codes", KeptType::U8, ofProjectorCodes, true},
      {"projector.scales", KeptType::F16, ofProjectorGroups, true},
      {"projector.minima", KeptType::F16, ofProjectorGroups, true},
      {"subspace.period", KeptType::I64, ofPeriod, true},
      {"subspace.similarities", KeptType::F32, ofSimilarities, true},
      {"subspace.leading", KeptType::F32, ofLeadingVector, true}},
     scratchOfQGalore,
     true,
     Storage::Int4,
     true},
    {"mezo", 2, true},
};

// What is kept of a tensor, each array at the next aligned place: the arrays that programs read, or the others.
constexpr uint64_t keptBytes(const OptimizerTraits &traits, const TrainedShape &tensor, const StateOptions &options,
                             bool areRead) {
  uint64_t bytes = 0;
  for (const KeptArray &array : traits.kept)
    bytes += array.isRead == areRead ? alignUp(array.bytes(tensor, options)) : 0;
  return bytes;
}
// All of it.
constexpr uint64_t keptBytes(const OptimizerTraits &traits, const TrainedShape &tensor, const StateOptions &options) {
  return keptBytes(traits, tensor, options, true) + keptBytes(traits, tensor, options, false);
}
// Where each array is, of those that are read and of the others, which begin there, or are kept elsewhere (null).
constexpr void placeKept(const OptimizerTraits &traits, const TrainedShape &tensor, const StateOptions &options,
                         unsigned char *read, unsigned char *others, unsigned char *(&out)[maximumKept]) {
  for (uint32_t i = 0; i < maximumKept; ++i) {
    const uint64_t bytes = traits.kept[i].bytes(tensor, options);
    unsigned char *&next = traits.kept[i].isRead ? read : others;
    out[i] = bytes ? next : nullptr;
    next = next ? next + alignUp(bytes) : nullptr;
  }
}
constexpr uint64_t scratchBytes(const OptimizerTraits &traits, const TrainedShape &tensor) {
  return traits.scratch ? alignUp(traits.scratch(tensor)) : 0;
}
// Of a tensor that is large and projected, if any is.
constexpr bool keepsState(const OptimizerTraits &traits, const StateOptions &options) {
  return keptBytes(traits, {leastCoded, leastCoded, 1}, options) > 0;
}

// Elements of a tensor that one of several threads updates at a time: a larger tensor is updated by all of them.
constexpr uint64_t updateShare = 1 << 15;

// Whether it keeps of each element what its update needs, and nothing else: then parts of a tensor can be updated
// apart.
inline bool goesByElement(const OptimizerTraits &traits) {
  for (const KeptArray &array : traits.kept)
    if (array.name && array.shape != likeTheTensor && array.shape != ifMomentum)
      return false;
  return !traits.forwardOnly && !traits.projects;
}

// A gradient adds to the square of its norm the sum of those of tiles of so many elements.
constexpr uint64_t mostNormTiles = 128, leastNormTile = 1 << 15;
constexpr uint64_t normTile(uint64_t elements) {
  const uint64_t share = (elements + mostNormTiles - 1) / mostNormTiles;
  return share < leastNormTile ? leastNormTile : share;
}
constexpr uint64_t normTilesOf(uint64_t elements) { return (elements + normTile(elements) - 1) / normTile(elements); }

// Whether a momentum can be given; it is then kept of every tensor.
constexpr bool takesMomentum(const OptimizerTraits &traits) {
  return keepsState(traits, {true}) && !keepsState(traits, {false});
}

// Null where there is none.
constexpr const OptimizerTraits *findOptimizer(std::string_view name) { return findByName(optimizers, name); }
constexpr const OptimizerTraits *findOptimizer(int number) {
  for (const OptimizerTraits &traits : optimizers)
    if (number == traits.number)
      return &traits;
  return nullptr;
}

} // namespace mebp::format
