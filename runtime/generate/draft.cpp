// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/draft.h"

#include <algorithm>

namespace mebp {

// In common at least, for one token says too little; and compared at most.
constexpr uint32_t fewest = 2, longest = 8;

uint32_t findDraft(const int32_t *ids, uint32_t count, int32_t *out, uint32_t wanted) {
  uint32_t best = fewest - 1, from = count;
  for (uint32_t end = count; end-- > fewest && best < longest;) { // what stands before `end` may be as at the end
    uint32_t common = 0;
    while (common < std::min(longest, end) && ids[end - 1 - common] == ids[count - 1 - common])
      ++common;
    if (common > best)
      best = common, from = end;
  }
  if (from == count)
    return 0;
  const uint32_t period = count - from;
  for (uint32_t i = 0; i < wanted; ++i)
    out[i] = i < period ? ids[from + i] : out[i - period];
  return wanted;
}

} // namespace mebp
