// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan/SessionMemory.h"

#include <algorithm>

namespace mebp {

uint64_t SessionMemory::countCheckpoints() const {
  if (layers == 0 || forwardOnly || spill != Spill::None)
    return 0;
  // The last segment is whole, and of the first its beginning may be missing.
  uint64_t segment = std::min(spacing, layers);
  return layers / segment + segment - 1;
}

uint64_t SessionMemory::file() const {
  uint64_t checkpoints = forwardOnly || spill == Spill::None ? 0 : layers * checkpoint;
  return checkpoints + adapters * ((filesState() ? keptState : 0) + (filesTrainables() ? trainables : 0));
}

} // namespace mebp
