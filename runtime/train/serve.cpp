// SPDX-License-Identifier: Apache-2.0
//
// Half a split model: what a server runs when the device asks.
#include "runtime/train/serve.h"

#include "runtime/train/lane.h"

namespace mebp {

Status noServer(const format::Bundle &bundle) {
  if (bundle.split().place() == format::Split::SERVER)
    return failure(MEBP_INVALID_ARGUMENT, "the bundle is the server's half of a model: give it to mebp serve, and the "
                                          "device's half, NAME.edge.mebp, to this");
  return failure(MEBP_INVALID_ARGUMENT,
                 "the bundle is the device's half of a model, whose layers are on a server: give "
                 "its address, with --connect HOST:PORT");
}

Status Lane::serveForward(const Command &command) {
  live = {command.batch, command.sequence};
  for (uint32_t i = exchange->first(); i < exchange->end(); ++i)
    if (Status status = blocks.forward(i, live); !status.ok())
      return status;
  return blocks.wait();
}

Status Lane::serveBackward(const Command &command) {
  if (command.batch != live.batch || command.sequence != live.sequence)
    return failure(MEBP_CORRUPT, "the device asks for a backward without its forward");
  for (uint32_t i = exchange->end(); i-- > exchange->first() && blocks.hasBackward(i);)
    if (Status status = blocks.backward(i, live); !status.ok())
      return status;
  return blocks.wait();
}

} // namespace mebp
