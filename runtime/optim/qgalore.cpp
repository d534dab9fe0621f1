// SPDX-License-Identifier: Apache-2.0
//
// Q-GaLore (Zhang et al., 2024): GaLore with weights of eight bits that are rounded at random, so that changes below
// their grid add up in the mean; moments of eight bits; projectors of four; and refreshes that become rarer.
#include <algorithm>

#include "runtime/optim/back_projection.h"
#include "runtime/optim/coded_moments.h"
#include "runtime/optim/codes.h"
#include "runtime/optim/lazy_refresh.h"

#include "format/stored_row.h"

namespace mebp {

namespace {

// Numbers of the arrays that are kept, as format/optimizers.h has them; the moments are before them.
enum Kept : uint32_t { ProjectorCodes = 6, ProjectorScales, ProjectorMinima, PeriodOf, Similarities, Leading };

LazyRefresh refreshOf(const TrainedTensor &tensor) {
  return {tensor.array<int64_t>(PeriodOf), tensor.array<float>(Similarities), tensor.array<float>(Leading)};
}

bool isDue(const OptimizerOptions &, uint64_t stepsDone, const TrainedTensor &tensor) {
  return refreshOf(tensor).isDue(stepsDone);
}

format::ThinShape projectorShape(const TrainedTensor &tensor) {
  return format::factorShape(tensor.shape.rows, tensor.shape.columns, tensor.shape.rank);
}
uint64_t projectorElements(const TrainedTensor &tensor) {
  const format::ThinShape shape = projectorShape(tensor);
  return shape.rows * shape.columns;
}

// In f32, at the beginning of the scratch memory.
float *projectorRoom(const TrainedTensor &tensor) { return reinterpret_cast<float *>(tensor.scratch); }

CodedRow projectorRow(const TrainedTensor &tensor, uint64_t row) {
  const uint64_t columns = projectorShape(tensor).columns, groups = groupsOf(format::Storage::Int4, columns);
  return {format::Storage::Int4,
          tensor.array<unsigned char>(ProjectorCodes) + row * rowBytesOf(format::Storage::Int4, columns),
          tensor.array<uint16_t>(ProjectorScales) + row * groups,
          tensor.array<uint16_t>(ProjectorMinima) + row * groups};
}

float *readProjector(const TrainedTensor &tensor) {
  const format::ThinShape shape = projectorShape(tensor);
  for (uint64_t row = 0; row < shape.rows; ++row) {
    format::readRow(projectorRow(tensor, row).stored(), 0, static_cast<int64_t>(shape.columns),
                    projectorRoom(tensor) + row * shape.columns);
  }
  return projectorRoom(tensor);
}

void keepProjector(const OptimizerOptions &options, uint64_t stepsDone, const TrainedTensor &tensor) {
  const float *projector = projectorRoom(tensor);
  refreshOf(tensor).take(tensor.shape, stepsDone, projector, static_cast<int64_t>(options.galoreUpdateInterval),
                         options.cosThreshold);
  const format::ThinShape shape = projectorShape(tensor);
  for (uint64_t row = 0; row < shape.rows; ++row)
    roundToNearest(projector + row * shape.columns, shape.columns, projectorRow(tensor, row));
}

// Elements from `first` on of a row, in f32, changed and rounded again. Of a row in eight bits they begin with a group;
// `changes` become what is rounded.
template <typename Update>
void updateRow(TrainedTensor tensor, uint64_t row, uint64_t first, uint64_t count, float *changes,
               const Update &update) {
  if (tensor.isCoded()) {
    const CodedRow coded = tensor.codedRow(row).from(first);
    float parameters[format::groupSize];
    for (uint64_t begin = 0; begin < count; begin += format::groupSize) {
      const uint64_t size = std::min(format::groupSize, count - begin);
      format::readRow(coded.stored(), static_cast<int64_t>(begin), static_cast<int64_t>(size), parameters);
      for (uint64_t i = 0; i < size; ++i)
        changes[begin + i] = update(parameters[i], changes[begin + i]);
    }
    roundAtRandom(changes, count, tensor.roundingSeed, row * tensor.shape.columns + first, coded);
    return;
  }
  tensor.parameters += (row * tensor.shape.columns + first) * (tensor.isNarrow ? sizeof(uint16_t) : sizeof(float));
  tensor.gradient = changes;
  updateRange(tensor, 0, count, [&](const Piece &piece) {
    for (uint64_t i = 0; i < piece.count; ++i)
      piece.parameters[i] = update(piece.parameters[i], piece.gradient[i]);
  });
}

// What Adam adds to each element of the gradient's shape.
void moveMoments(const AdamwFactors &factors, const TrainedTensor &tensor, float *out) {
  TrainedTensor low = tensor;
  low.shape = {1, tensor.shape.gradientElements(), 0};
  low.parameters = reinterpret_cast<unsigned char *>(out);
  low.isNarrow = false;
  const CodedMoments moments(tensor);
  byPieces(low, [&](const Piece &piece) {
    float mean[format::codedBlock], square[format::codedBlock];
    for (uint64_t first = 0; first < piece.count; first += format::codedBlock) {
      const uint64_t count = std::min(format::codedBlock, piece.count - first);
      moments.move(factors, piece.gradient + first, piece.first + first, count, mean, square);
      for (uint64_t i = 0; i < count; ++i)
        piece.parameters[first + i] = factors.updated(0, mean[i], square[i]);
    }
  });
}

// It comes back to the tensor's shape a tile at a time. The decay comes after the update.
void updateProjected(const OptimizerOptions &options, const AdamwFactors &factors, const TrainedTensor &tensor) {
  constexpr uint64_t tileRows = 16, tileColumns = 8 * format::groupSize;
  const uint64_t rows = tensor.shape.rows, columns = tensor.shape.columns, rank = tensor.shape.rank;
  const float *projector = readProjector(tensor);
  float *low = projectorRoom(tensor) + projectorElements(tensor);
  moveMoments(factors, tensor, low);
  const bool isOnRight = format::isProjectedOnRight(rows, columns);
  const float *left = isOnRight ? low : projector, *right = isOnRight ? projector : low;
  const auto scale = static_cast<float>(options.galoreScale);
  const auto updated = [kept = factors.decay](float parameter, float change) { return (parameter + change) * kept; };
  forEach(tensor.workers, (rows + tileRows - 1) / tileRows, [&](uint64_t tile) {
    float changes[tileRows * tileColumns];
    const uint64_t row = tile * tileRows, tall = std::min(rows - row, tileRows);
    for (uint64_t column = 0; column < columns; column += tileColumns) {
      const uint64_t wide = std::min(columns - column, tileColumns);
      projectBack(left + row * rank, right + column, columns, tall, rank, wide, scale, changes);
      for (uint64_t i = 0; i < tall; ++i)
        updateRow(tensor, row + i, column, wide, changes + i * wide, updated);
    }
  });
}

// One in eight bits that is not projected, as a table.
void updateCoded(const AdamwFactors &factors, const TrainedTensor &tensor) {
  auto *changes = reinterpret_cast<float *>(tensor.scratch);
  moveMoments(factors, tensor, changes);
  const uint64_t columns = tensor.shape.columns;
  const auto updated = [kept = factors.decay](float parameter, float change) { return parameter * kept + change; };
  forEach(tensor.workers, tensor.shape.rows,
          [&](uint64_t row) { updateRow(tensor, row, 0, columns, changes + row * columns, updated); });
}

void updateQGalore(const OptimizerOptions &options, uint64_t step, const TrainedTensor &tensor) {
  const AdamwFactors factors(options, step);
  if (tensor.shape.rank)
    updateProjected(options, factors, tensor);
  else if (tensor.isCoded())
    updateCoded(factors, tensor);
  else
    adamw8bit.update(options, step, tensor);
}

} // namespace

const Optimizer qgalore = {"qgalore",
                           {{&OptimizerOptions::beta1, 0.9},
                            {&OptimizerOptions::beta2, 0.999},
                            {&OptimizerOptions::epsilon, 1e-8},
                            {&OptimizerOptions::galoreScale, 0.25},
                            {&OptimizerOptions::galoreUpdateInterval, 200},
                            {&OptimizerOptions::galoreRefresh, MEBP_REFRESH_BY_SKETCH},
                            {&OptimizerOptions::cosThreshold, 0.4}},
                           updateQGalore,
                           {isDue, projectorRoom, keepProjector, readProjector}};

} // namespace mebp
