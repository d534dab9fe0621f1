// SPDX-License-Identifier: Apache-2.0
//
// What a step is given: token ids and labels of some rows.
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

// Copies a batch, then checks the copy, since whoever gave it may still write to it: shapes beyond the compiled ones,
// ids beyond the vocabulary and labels that are neither ignored nor in it are refused. The row of token t predicts
// token t + 1, so there that one's label is put. Gives the number of labels that count.
Status takeBatch(const format::Model &model, const Tokens &tokens, const BatchMemory &memory, uint64_t &labels);

} // namespace mebp
