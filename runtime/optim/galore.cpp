// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "runtime/optim/back_projection.h"
#include "runtime/optim/optimizer.h"

namespace mebp {

namespace {

// Numbers of the arrays that are kept, as format/optimizers.h has them.
enum Kept : uint32_t { Projector, Mean, Square };

// galore-torch's AdamW: epsilon is not corrected for the bias, and the decay comes after the update.
struct Factors {
  Factors(const OptimizerOptions &options, uint64_t step) {
    auto steps = static_cast<double>(step);
    beta1 = static_cast<float>(options.beta1), meanWeight = static_cast<float>(1 - options.beta1);
    beta2 = static_cast<float>(options.beta2), squareWeight = static_cast<float>(1 - options.beta2);
    epsilon = static_cast<float>(options.epsilon);
    rate = static_cast<float>(-options.learningRate * std::sqrt(1 - std::pow(options.beta2, steps)) /
                              (1 - std::pow(options.beta1, steps)));
    decay = static_cast<float>(-options.learningRate * options.weightDecay);
    scale = static_cast<float>(options.galoreScale);
  }

  // Moves the moments on; what Adam would add is returned.
  float move(float gradient, float &mean, float &square) const {
    mean = mean * beta1 + meanWeight * gradient;
    square = square * beta2 + squareWeight * gradient * gradient;
    return mean / (std::sqrt(square) + epsilon);
  }
  float updated(float parameter, float normalised) const {
    parameter += rate * normalised;
    return parameter + decay * parameter;
  }

  float beta1, meanWeight, beta2, squareWeight, epsilon, rate, decay, scale;
};

void updateWhole(const Factors &factors, const TrainedTensor &tensor) {
  byPieces(tensor, [&](const Piece &piece) {
    float *__restrict mean = tensor.array<float>(Mean) + piece.first;
    float *__restrict square = tensor.array<float>(Square) + piece.first;
    for (uint64_t i = 0; i < piece.count; ++i)
      piece.parameters[i] = factors.updated(piece.parameters[i], factors.move(piece.gradient[i], mean[i], square[i]));
  });
}

void addRow(const Factors &factors, TrainedTensor tensor, uint64_t first, const float *update, uint64_t count) {
  tensor.parameters += first * (tensor.isNarrow ? sizeof(uint16_t) : sizeof(float));
  tensor.gradient = update;
  updateRange(tensor, 0, count, [&](const Piece &piece) {
    for (uint64_t i = 0; i < piece.count; ++i)
      piece.parameters[i] = factors.updated(piece.parameters[i], piece.gradient[i]);
  });
}

// What is normalised comes back to the tensor's shape a tile at a time.
void addProjectedBack(const Factors &factors, const TrainedTensor &tensor, const float *left, const float *right) {
  constexpr uint64_t tileRows = 16, tileColumns = 256;
  const auto [rows, columns, rank] = tensor.shape;
  forEach(tensor.workers, (rows + tileRows - 1) / tileRows,
          [&, rows = rows, columns = columns, rank = rank](uint64_t tile) {
            float update[tileRows * tileColumns];
            const uint64_t row = tile * tileRows, tall = std::min(rows - row, tileRows);
            for (uint64_t column = 0; column < columns; column += tileColumns) {
              const uint64_t wide = std::min(columns - column, tileColumns);
              projectBack(left + row * rank, right + column, columns, tall, rank, wide, factors.scale, update);
              for (uint64_t i = 0; i < tall; ++i)
                addRow(factors, tensor, (row + i) * columns + column, update + i * wide, wide);
            }
          });
}

void updateProjected(const Factors &factors, const TrainedTensor &tensor) {
  auto *normalised = reinterpret_cast<float *>(tensor.scratch);
  TrainedTensor projected = tensor;
  projected.shape = {1, tensor.shape.gradientElements(), 0};
  projected.parameters = tensor.scratch;
  projected.isNarrow = false;
  byPieces(projected, [&](const Piece &piece) {
    float *__restrict mean = tensor.array<float>(Mean) + piece.first;
    float *__restrict square = tensor.array<float>(Square) + piece.first;
    for (uint64_t i = 0; i < piece.count; ++i)
      piece.parameters[i] = factors.move(piece.gradient[i], mean[i], square[i]);
  });
  const float *projector = tensor.array<float>(Projector);
  const bool isOnRight = format::isProjectedOnRight(tensor.shape.rows, tensor.shape.columns);
  addProjectedBack(factors, tensor, isOnRight ? normalised : projector, isOnRight ? projector : normalised);
}

void updateGalore(const OptimizerOptions &options, uint64_t step, const TrainedTensor &tensor) {
  const Factors factors(options, step);
  tensor.shape.rank ? updateProjected(factors, tensor) : updateWhole(factors, tensor);
}

// Kept as it is found.
bool isDue(const OptimizerOptions &options, uint64_t stepsDone, const TrainedTensor &) {
  return stepsDone % static_cast<uint64_t>(options.galoreUpdateInterval) == 0;
}
float *projectorOf(const TrainedTensor &tensor) { return tensor.array<float>(Projector); }
void keepProjector(const OptimizerOptions &, uint64_t, const TrainedTensor &) {}

} // namespace

const Optimizer galore = {"galore",
                          {{&OptimizerOptions::beta1, 0.9},
                           {&OptimizerOptions::beta2, 0.999},
                           {&OptimizerOptions::epsilon, 1e-6},
                           {&OptimizerOptions::galoreScale, 0.25},
                           {&OptimizerOptions::galoreUpdateInterval, 200},
                           {&OptimizerOptions::galoreRefresh, MEBP_REFRESH_BY_SKETCH}},
                          updateGalore,
                          {isDue, projectorOf, keepProjector, projectorOf}};

} // namespace mebp
