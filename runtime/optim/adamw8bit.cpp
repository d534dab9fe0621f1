// SPDX-License-Identifier: Apache-2.0
//
// AdamW with states of eight bits (Dettmers et al., 2022). Small tensors keep f32. A block is read, updated and written
// again, so nothing else is needed.
#include <algorithm>

#include "runtime/optim/coded_moments.h"

namespace mebp {

static void updateAdamw8bit(const OptimizerOptions &options, uint64_t step, const TrainedTensor &tensor) {
  if (tensor.kept[0]) {
    updateAdamw(options, step, tensor);
    return;
  }
  const AdamwFactors factors(options, step);
  const CodedMoments moments(tensor);
  byPieces(tensor, [&](const Piece &piece) {
    float mean[format::codedBlock], square[format::codedBlock];
    for (uint64_t first = 0; first < piece.count; first += format::codedBlock) {
      const uint64_t count = std::min(format::codedBlock, piece.count - first);
      moments.move(factors, piece.gradient + first, piece.first + first, count, mean, square);
      for (uint64_t i = 0; i < count; ++i)
        piece.parameters[first + i] = factors.updated(piece.parameters[first + i], mean[i], square[i]);
    }
  });
}

const Optimizer adamw8bit = {
    "adamw8bit",
    {{&OptimizerOptions::beta1, 0.9}, {&OptimizerOptions::beta2, 0.999}, {&OptimizerOptions::epsilon, 1e-8}},
    updateAdamw8bit};

} // namespace mebp
