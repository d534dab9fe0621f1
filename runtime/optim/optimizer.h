// SPDX-License-Identifier: Apache-2.0
//
// Optimizers, one trainable at a time, so that a gradient can be applied and forgotten as soon as it is there. What
// each keeps stands in format/optimizers.h; a file here has how it updates, and the options that it takes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "format/half.h"
#include "format/optimizers.h"
#include "format/stored_row.h"
#include "runtime/core/status.h"
#include "runtime/core/workers.h"
#include "runtime/optim/codes.h"
#include "runtime/optim/options.h"

namespace mebp {

// A trainable while it is updated.
struct TrainedTensor {
  format::TrainedShape shape;
  unsigned char *parameters = nullptr;           // row by row; byPieces reads and writes them as f32
  bool isNarrow = false;                         // they are bf16
  uint16_t *scales = nullptr, *minima = nullptr; // f16: they are codes of eight bits, as kernels read them
  uint64_t roundingSeed = 0;                     // of this tensor in this step
  const float *gradient = nullptr;
  unsigned char *kept[format::maximumKept] = {}; // its arrays, in the order of the optimizer's row; null: not kept
  unsigned char *scratch = nullptr;              // as many bytes as the row asks for
  Workers *workers = nullptr;                    // null: the calling thread alone

  bool isCoded() const { return scales != nullptr; }
  // One of its rows.
  CodedRow codedRow(uint64_t row) const {
    const uint64_t groups = row * groupsOf(format::Storage::Int8, shape.columns);
    return {format::Storage::Int8, parameters + row * rowBytesOf(format::Storage::Int8, shape.columns), scales + groups,
            minima + groups};
  }
  format::StoredRow storedRow(uint64_t row) const {
    if (isCoded())
      return codedRow(row).stored();
    const format::Storage storage = isNarrow ? format::Storage::BF16 : format::Storage::F32;
    return {storage, parameters + row * rowBytesOf(storage, shape.columns)};
  }
  template <typename Element> Element *array(uint32_t index) const { return reinterpret_cast<Element *>(kept[index]); }
};

// An option that an optimizer takes, and what it is where it is not given.
struct OptionDefault {
  double OptimizerOptions::*option = nullptr;
  double value = 0;
};

// Of one that projects gradients: what it does with a tensor's projector, which has a room where it is f32.
struct ProjectorUse {
  bool (*isDue)(const OptimizerOptions &options, uint64_t stepsDone, const TrainedTensor &tensor) = nullptr;
  float *(*room)(const TrainedTensor &tensor) = nullptr;
  // A new one, from there, and the kept one, to there.
  void (*keep)(const OptimizerOptions &options, uint64_t stepsDone, const TrainedTensor &tensor) = nullptr;
  float *(*read)(const TrainedTensor &tensor) = nullptr;
};

struct Optimizer {
  const char *name; // as in format/optimizers.h
  OptionDefault options[8];
  // Update number `step` of the tensor, counted from 1. Factors are made in double, elements are float.
  void (*update)(const OptimizerOptions &options, uint64_t step, const TrainedTensor &tensor);
  ProjectorUse projector = {};

  bool takes(const OptimizerOption &option) const {
    return std::any_of(std::begin(options), std::end(options),
                       [&](const OptionDefault &taken) { return taken.option == option.value; });
  }
};
extern const Optimizer adamw, sgd, lion, adamw8bit, galore, qgalore, mezo;

// Null where there is none of that number.
const Optimizer *findOptimizer(int number);

// Elements `first` and those behind it, of one that is updated element by element.
struct Piece {
  float *__restrict parameters;
  const float *__restrict gradient;
  uint64_t first, count;
};
// Calls update(piece) for the elements from `first` on, in f32: at once, or by a few where parameters are bf16. Those
// are rounded to the nearest.
template <typename Update>
void updateRange(const TrainedTensor &tensor, uint64_t first, uint64_t elements, const Update &update) {
  if (!tensor.isNarrow) {
    update(Piece{reinterpret_cast<float *>(tensor.parameters) + first, tensor.gradient + first, first, elements});
    return;
  }
  constexpr uint64_t most = 2048;
  auto *narrow = reinterpret_cast<uint16_t *>(tensor.parameters);
  float wide[most];
  for (const uint64_t end = first + elements; first < end; first += most) {
    const uint64_t count = std::min(end - first, most);
    for (uint64_t i = 0; i < count; ++i)
      wide[i] = format::bfloatToFloat(narrow[first + i]);
    update(Piece{wide, tensor.gradient + first, first, count});
    for (uint64_t i = 0; i < count; ++i)
      narrow[first + i] = format::floatToBfloat(wide[i]);
  }
}

// The same for all of the tensor, on its workers. Pieces begin at multiples of 256.
template <typename Update> void byPieces(const TrainedTensor &tensor, const Update &update) {
  constexpr uint64_t share = format::updateShare; // worth a thread's way to it
  const uint64_t elements = tensor.shape.elements();
  forEach(tensor.workers, (elements + share - 1) / share,
          [&](uint64_t task) { updateRange(tensor, task * share, std::min(elements - task * share, share), update); });
}

// What so many elements of a gradient, which begin with a tile, add to the square of its norm: a sum of those of tiles
// of this size (format::normTile), which are written there. The same on however many threads.
double squareOf(Workers *workers, const float *gradient, uint64_t count, uint64_t tile, double *tiles);
// Of a whole gradient.
double squareOf(Workers *workers, const float *gradient, uint64_t count);

} // namespace mebp
