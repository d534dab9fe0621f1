// SPDX-License-Identifier: Apache-2.0
//
// Where gradients are written and when they are complete. A gradient that is applied at once only needs memory while
// its block is run; one that is kept or summed, or that comes from several blocks, has memory of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "format/program.pb.h"
#include "mebp/mebp.h"
#include "runtime/core/status.h"

namespace mebp {

// What a session does with gradients.
enum class GradientUse {
  Apply, // each at once
  Keep,  // all, until the step's end
  Sum,   // over micro-batches, until the step's end
};
GradientUse gradientUseOf(const mebp_session_options &options);

// One GRADIENT output of one block.
struct Contribution {
  uint32_t trainable = 0;
  uint64_t offset = 0; // in the gradients' memory: where the program writes it
  bool add = false;    // onto the trainable's own memory, which holds what came before
  bool last = false;   // of this trainable in a backward pass
};

struct GradientPlan {
  std::vector<std::vector<Contribution>> blocks; // for each block, in the order of its program's GRADIENT outputs
  std::vector<uint64_t> own;                     // for each trainable its own memory, or noOffset
  uint64_t ownBytes = 0;                         // of all those, which lie first
  uint64_t bytes = 0;
};

GradientPlan planGradients(const format::Bundle &bundle, GradientUse use);

// Takes each trainable's gradient once in a backward pass. A reduction over machines is one more sink.
class GradientSink {
public:
  virtual ~GradientSink() = default;
  virtual Status take(uint32_t trainable, const float *gradient) = 0;
};

} // namespace mebp
