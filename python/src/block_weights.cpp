// SPDX-License-Identifier: Apache-2.0
#include "block_weights.h"

namespace mebp::python {

// Called within a call of the session, which has given Python's lock up.
void BlockWeights::giveTo(mebp_session_options &options) {
  if (!isGiven())
    return;
  options.on_block = [](void *user, uint32_t block, mebp_direction, uint32_t next, const void **out) {
    return static_cast<BlockWeights *>(user)->ask(block, next, out);
  };
  options.on_block_ready = [](void *user, uint32_t block) { return static_cast<BlockWeights *>(user)->ready(block); };
  options.block_user = this;
  options.blocks_ahead = nb::cast<uint32_t>(weights.attr("ahead"));
}

mebp_code BlockWeights::ask(uint32_t block, uint32_t next, const void **out) {
  nb::gil_scoped_acquire locked;
  if (out)
    *out = reinterpret_cast<const void *>(nb::cast<uintptr_t>(weights.attr("ask")(block, next)));
  else
    weights.attr("free")(block);
  return MEBP_OK;
}

mebp_code BlockWeights::ready(uint32_t block) {
  nb::gil_scoped_acquire locked;
  return nb::cast<bool>(weights.attr("ready")(block)) ? MEBP_OK : MEBP_DISCONNECTED;
}

} // namespace mebp::python
