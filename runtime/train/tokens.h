// SPDX-License-Identifier: Apache-2.0
//
// What a step is given: token ids and labels of some rows. All of it is checked before anything runs.
#pragma once

#include <cstdint>

#include "format/program.pb.h"
#include "runtime/core/status.h"

namespace mebp {

using Tokens = mebp_batch; // labels are null where there is no objective

// Refuses shapes beyond the compiled ones and ids beyond the vocabulary.
Status checkIds(const format::Model &model, const Tokens &tokens);
// Refuses labels that are neither ignored nor in the vocabulary; gives the number of those that count.
Status countLabels(const format::Model &model, const Tokens &tokens, uint64_t &count);
// The row of token t predicts token t + 1, so that one's label stands in its row. Gives the number of those that count.
uint64_t shiftLabels(const Tokens &tokens, int32_t *shifted);

} // namespace mebp
