// SPDX-License-Identifier: Apache-2.0
//
// What a step is given: token ids and labels of some rows. All of it is checked before anything runs.
#pragma once

#include <cstdint>

#include "format/program.pb.h"
#include "runtime/core/status.h"

namespace mebp {

using Tokens = mebp_batch; // labels are null where there is no objective

// The memory of the micro-batch that runs: what programs read of it, and the loss that they write.
struct BatchMemory {
  int32_t *ids = nullptr, *labels = nullptr;
  float *scale = nullptr; // 1 / the number of labels that count
  float *loss = nullptr;
};

// Refuses shapes beyond the compiled ones and ids beyond the vocabulary.
Status checkIds(const format::Model &model, const Tokens &tokens);
// Refuses labels that are neither ignored nor in the vocabulary; gives the number of those that count.
Status countLabels(const format::Model &model, const Tokens &tokens, uint64_t &count);
// Both, of every micro-batch; gives the number of labels that count in all of them, and refuses 0.
Status checkBatches(const format::Model &model, const Tokens *batches, uint32_t count, uint64_t &labels);
// The row of token t predicts token t + 1, so that one's label stands in its row. Gives the number of those that count.
uint64_t shiftLabels(const Tokens &tokens, int32_t *shifted);

} // namespace mebp
