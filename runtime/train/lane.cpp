// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/lane.h"

#include <utility>

#include "format/lookup.h"

namespace mebp {

void Lane::create(const Bundle &opened, std::vector<layout::Border> borders, const layout::Layout &layout,
                  uint32_t number, unsigned char *sessionMemory, bool isFresh, SpillFile &spill, Flight &sharedFlight,
                  const MemoryCheck &check) {
  const layout::LanePlan &plan = layout.lane;
  unsigned char *memory = sessionMemory + layout.laneOf(number);
  model = &opened.model();
  flight = &sharedFlight;
  for (size_t i = 0; i < batch.places.size(); ++i)
    batch.places[i] = plan.stepPorts[i] == layout::noOffset ? nullptr : memory + plan.stepPorts[i];
  batch.shape = stepShapeOf(opened.content());
  routed = routedBlocks(opened.content());
  checkpoints.create(plan.checkpoints, std::move(borders), memory, spill, check);
  gradients.create(opened.content(), layout.gradients, sessionMemory, memory, isFresh, check);
  remote.create(plan.remote, memory);
}

Status Lane::take(Tokens tokens) {
  live = {tokens.batch, tokens.sequence};
  return takeBatch(*model, tokens, batch, labels);
}

// As the functions below have it.
std::vector<Visit> Lane::visits() const {
  std::vector<Visit> order;
  for (uint32_t i = 0; i <= blocks.head(); ++i)
    order.push_back({i, MEBP_FORWARD});
  for (uint32_t i = blocks.head(); i-- > 0 && blocks.hasBackward(i);) {
    const BlockRange lost = checkpoints.lostBefore(i);
    for (uint32_t again = lost.begin; again < lost.end; ++again)
      order.push_back({again, MEBP_FORWARD});
    order.push_back({i, MEBP_BACKWARD});
  }
  return order;
}

Status Lane::runForward(Rows wanted) {
  blocks.beginWalk(true);
  if (exchange)
    exchange->select(wanted);
  for (uint32_t i = 0; i < blocks.head(); ++i)
    if (Status status = blocks.forward(i, live); !status.ok())
      return status;
  return Status();
}

Status Lane::runForwardForBackward() {
  blocks.beginWalk(false);
  if (exchange)
    exchange->select(headRows());
  for (uint32_t i = 0; i < blocks.head(); ++i) {
    if (Status status = blocks.forward(i, live); !status.ok())
      return status;
    if (!checkpoints.isSpilled(i))
      continue;
    if (Status status = blocks.wait(); !status.ok())
      return status;
    if (Status status = checkpoints.keepOutput(i, live.rows()); !status.ok())
      return status;
  }
  return Status();
}

// Onto what micro-batches before this one have given.
Status Lane::deliver(uint32_t block, GradientSink &sink) {
  if (Status status = flight->enter(block, place); !status.ok())
    return status;
  Status status = gradients.deliver(block, sink);
  flight->leave(block);
  return status;
}

Status Lane::runBackward(GradientSink *sink, const AtBlock &atBlock, uint32_t last) {
  remote.clearSums(); // the head has run, and nothing else is under way
  for (uint32_t i = blocks.head(); i-- > 0;) {
    if (!blocks.hasBackward(i))
      break; // nothing before it is trained
    // None of the lost ones has been updated yet: the backward is behind them.
    BlockRange lost = checkpoints.lostBefore(i);
    for (uint32_t again = lost.begin; again < lost.end; ++again)
      if (Status status = blocks.recompute(again, live); !status.ok())
        return status;
    if (Status status = atBlock(i); !status.ok())
      return status;
    if (i == last)
      break;
    if (Status status = blocks.backward(i, live); !status.ok())
      return status;
    checkpoints.endInput(i);
    if (!sink || !gradients.has(i))
      continue;
    if (Status status = blocks.wait(); !status.ok())
      return status;
    if (Status status = deliver(i, *sink); !status.ok())
      return status;
  }
  return blocks.wait();
}

} // namespace mebp
