// SPDX-License-Identifier: Apache-2.0
//
// Adam's moments in eight bits (Dettmers et al., 2022): a block of 256 elements has codes (dynamic_map.h) times its
// largest magnitude. Those of small tensors are f32.
#pragma once

#include "runtime/optim/adamw.h"

namespace mebp {

class CodedMoments {
public:
  // Those of a tensor whose first six arrays are, as format/optimizers.h has them, adamw8bit's.
  explicit CodedMoments(const TrainedTensor &tensor) : tensor(tensor) {}

  // Moves elements first, ... of a block on by the gradient; the new ones come out before they are coded again. `first`
  // is a multiple of the block's size, which `count` does not exceed.
  void move(const AdamwFactors &factors, const float *gradient, uint64_t first, uint64_t count, float *mean,
            float *square) const;

private:
  const TrainedTensor &tensor;
};

} // namespace mebp
