// SPDX-License-Identifier: Apache-2.0
//
// How a block runs, here or in part elsewhere. A whole model has no exchange, and all of a block's programs.
#include <algorithm>

#include "format/lookup.h"
#include "runtime/train/blocks.h"

namespace mebp {

using format::Port;

bool Blocks::hasBackward(uint32_t block) const {
  if (exchange && block < bundle->split().lowest_trained())
    return false;
  return has(block, format::backwardProgram) || (exchange && exchange->isServed(block));
}

// Of the last layer's result, and of its cotangent.
uint64_t Blocks::topRows(LiveShape live) const {
  return exchange->selectsRows() ? exchange->selection().count : live.rows();
}

// The server for its blocks.
Status Blocks::ask(uint32_t block, LiveShape live, uint32_t position, bool generates) {
  if (!exchange || !exchange->isDevice() || block != exchange->first())
    return Status();
  const format::FrameKind kind = live.isDraft ? format::FrameKind::Draft
                                 : generates  ? format::FrameKind::Decode
                                              : format::FrameKind::Forward;
  return exchange->command({kind, live.batch, live.sequence, position});
}

Status Blocks::enterForward(uint32_t block, LiveShape live) {
  if (!exchange || block != exchange->first())
    return Status();
  if (!exchange->isDevice())
    return exchange->receiveFlows(block - 1, live.rows(), {*checkpoints, *remote}, false);
  if (Status status = wait(); !status.ok())
    return status;
  return exchange->sendFlows(block - 1, live.rows(), {*checkpoints, *remote}, false);
}

Status Blocks::leaveForward(uint32_t block, LiveShape live) {
  if (!exchange || block + 1 != exchange->end())
    return Status();
  if (exchange->isDevice())
    return exchange->receiveFlows(block, topRows(live), {*checkpoints, *remote}, false);
  if (Status status = wait(); !status.ok())
    return status;
  if (exchange->selectsRows())
    for (const layout::Flow &flow : checkpoints->flowsBehind(block))
      gatherRows(checkpoints->outputOf(block, flow.name), flow.rowBytes, exchange->selection());
  return exchange->sendFlows(block, topRows(live), {*checkpoints, *remote}, false);
}

Status Blocks::enterBackward(uint32_t block, LiveShape live) {
  if (!exchange || block + 1 != exchange->end())
    return Status();
  if (exchange->isDevice()) {
    if (Status status = wait(); !status.ok())
      return status;
    if (Status status = exchange->command({format::FrameKind::Backward, live.batch, live.sequence, 0}); !status.ok())
      return status;
    return exchange->sendFlows(block, topRows(live), {*checkpoints, *remote}, true);
  }
  if (Status status = exchange->receiveFlows(block, topRows(live), {*checkpoints, *remote}, true); !status.ok())
    return status;
  if (exchange->selectsRows())
    for (const layout::Flow &flow : checkpoints->flowsBehind(block))
      scatterRows(checkpoints->cotangentOf(block, flow.name), flow.rowBytes, exchange->selection(), live.rows());
  return Status();
}

Status Blocks::leaveBackward(uint32_t block, LiveShape live) {
  if (!exchange || block != exchange->first() || !exchange->needsInput(block))
    return Status();
  if (exchange->isDevice())
    return exchange->receiveFlows(block - 1, live.rows(), {*checkpoints, *remote}, true);
  if (Status status = wait(); !status.ok())
    return status;
  return exchange->sendFlows(block - 1, live.rows(), {*checkpoints, *remote}, true);
}

static bool hasRemote(const format::Ports &ports, bool cotangents) {
  return std::any_of(ports.begin(), ports.end(), [&](const Port &port) { return isRemote(port, cotangents); });
}

// With what it takes from the other half before, and what it gives that one behind.
Status Blocks::runPassing(const format::ProgramTraits &passing, std::string_view name, uint32_t block, LiveShape live,
                          uint32_t position) {
  const BoundProgram &bound = of(block, name);
  if (!exchange || !exchange->isServed(block))
    return run(bound, live, position);
  const format::Program &program = bundle->programs(bound.program);
  const bool isBackward = bound.use->is(format::GivesGradients);
  if (hasRemote(program.inputs(), isBackward))
    if (Status status =
            exchange->receivePorts(passing.taken(isBackward), program, block, live.rows(), {*checkpoints, *remote});
        !status.ok())
      return status;
  if (Status status = run(bound, live, position); !status.ok())
    return status;
  // What leads to the first block's input alone would be of use to nobody.
  const bool isOfInput = isBackward && exchange->isDevice();
  if (!hasRemote(program.outputs(), isBackward) || (isOfInput && !exchange->needsInput(block)))
    return Status();
  if (Status status = wait(); !status.ok())
    return status;
  return exchange->sendPorts(passing.given(isBackward), program, block, live.rows(), {*checkpoints, *remote});
}

Status Blocks::runForward(const format::ProgramTraits &program, uint32_t block, LiveShape live, uint32_t position,
                          bool generates) {
  const std::string_view name = generates ? program.decode : program.name;
  return has(block, name) ? runPassing(program, name, block, live, position) : Status();
}

Status Blocks::runForwards(uint32_t block, LiveShape live, uint32_t position, bool generates) {
  if (Status status = ask(block, live, position, generates); !status.ok())
    return status;
  if (Status status = enterForward(block, live); !status.ok())
    return status;
  for (const format::ProgramTraits &program : format::forwardPrograms)
    if (Status status = runForward(program, block, live, position, generates); !status.ok())
      return status;
  return leaveForward(block, live);
}

Status Blocks::runBackwards(uint32_t block, LiveShape live) {
  if (Status status = enterBackward(block, live); !status.ok())
    return status;
  for (const format::ProgramTraits *program = format::forwardPrograms.end();
       program-- != format::forwardPrograms.begin();) {
    const bool isUseless = format::addsCotangents(program->backward) && exchange && !exchange->needsInput(block);
    if (!has(block, program->backward) || isUseless)
      continue;
    if (Status status = runPassing(*program, program->backward, block, live, 0); !status.ok())
      return status;
  }
  return leaveBackward(block, live);
}

} // namespace mebp
