// SPDX-License-Identifier: Apache-2.0
//
// Drafts by prompt lookup: text repeats itself, so what followed the last tokens where they stood before may follow
// again.
#pragma once

#include <cstdint>

namespace mebp {

// Of ids[count]: looks for the place before its end that has the most tokens in common with the end, the last such one.
// Writes out[wanted], what follows there, over and over where that reaches the end, and returns `wanted`; or 0, where
// fewer than two tokens are in common.
uint32_t findDraft(const int32_t *ids, uint32_t count, int32_t *out, uint32_t wanted);

} // namespace mebp
