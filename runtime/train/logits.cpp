// SPDX-License-Identifier: Apache-2.0
//
// The logits of some rows of each sequence. Their program is planned for few rows, and runs on one range after another.
#include <algorithm>

#include "runtime/train/session.h"

namespace mebp {

Status Session::logits(const Tokens &tokens, uint32_t first, uint32_t count, float *out) {
  if (Status status = engine.checkRuns(); !status.ok())
    return status;
  Blocks &blocks = engine.lane().blocks;
  if (!blocks.has(blocks.head(), format::logitsProgram))
    return failure(MEBP_UNSUPPORTED, "the bundle was compiled without a program for logits; compile it again");
  if (Status status = engine.weights.checkLogits(); !status.ok())
    return status;
  if (Status status = engine.take(tokens); !status.ok())
    return status;
  if (count == 0 || first >= tokens.sequence || count > tokens.sequence - first)
    return failure(MEBP_OUT_OF_RANGE, "rows %u to %llu are not within the sequence of %u", first,
                   static_cast<unsigned long long>(first) + count, tokens.sequence);
  // Of half a model, the only ones that come.
  uint64_t wanted = 0;
  for (uint32_t item = 0; item < tokens.batch; ++item)
    for (uint32_t row = first; row < first + count; ++row)
      engine.lane().batch.rows()[wanted++] = static_cast<int32_t>(item * tokens.sequence + row);
  if (Status status = engine.lane().runForward({engine.lane().batch.rows(), wanted}); !status.ok())
    return status;

  const uint64_t outputs = outputsOf(engine.bundle().model());
  for (uint64_t item = 0; item < tokens.batch; ++item) {
    for (uint64_t done = 0, rows; done < count; done += rows) {
      rows = std::min<uint64_t>(blocks.logitRows(), count - done);
      const uint64_t row = engine.lane().checkpoints.isGathered() ? item * count : item * tokens.sequence + first;
      if (Status status = blocks.logits(row + done, static_cast<uint32_t>(rows), out + (item * count + done) * outputs);
          !status.ok())
        return status;
    }
  }
  engine.peak.sample();
  return Status();
}

} // namespace mebp
