// SPDX-License-Identifier: Apache-2.0
//
// A pass of a prompt between the halves of a split model, in two waves: the first and the second half of its tokens.
// While what the one has computed crosses, the other is computed, and what goes up passes what comes down. They take no
// more memory than the pass as one, since each has half of it. A wave's keys and values are there before the next wave
// comes to the same block, so all has the bits of one pass after the other.
//
// 1. The device has the first wave's hidden state, asks for both waves, and sends it. Then that of the second one.
// 2. Both halves walk the server's blocks. At each they run first the one wave's programs and then the other's, with
//    the first one of the next block behind them, whose result crosses meanwhile.
// 3. The device takes the results: of the first wave none where the head comes next.
#include <algorithm>
#include <iterator>

#include "runtime/generate/generation.h"

namespace mebp {

using format::FrameKind;

// What a block begins with, whose result crosses while the other wave is computed.
static constexpr auto &opening = *format::forwardPrograms.begin();

// Blocks that are all a device's.
static Status decodeHere(uint32_t begin, uint32_t end, Blocks &blocks, LiveShape live, uint32_t position) {
  for (uint32_t block = begin; block < end; ++block)
    if (Status status = blocks.decode(block, live, position); !status.ok())
      return status;
  return Status();
}

Status Generation::stepInWaves(const int32_t *ids, uint32_t stride, uint32_t first, uint32_t count) {
  if (Status status = take(waves[0], ids, stride, first); !status.ok())
    return status;
  if (Status status = take(waves[1], ids + first, stride, count - first); !status.ok())
    return status;
  copyStates(count);
  written = std::max(written, length + count);
  engine->passing()->select(lastRows(count - first));
  if (Status status = crossInWaves(first, count); !status.ok())
    return status;
  engine->peak.sample();
  return Status();
}

Status Generation::serveWaves(const Command &command) {
  const uint32_t first = format::firstWave(layout.rows, batch, command.sequence);
  const Rows wanted = engine->passing()->selection();
  const uint64_t rows = static_cast<uint64_t>(batch) * (command.sequence - first);
  if (first == 0 || (wanted.count && static_cast<uint64_t>(wanted.numbers[wanted.count - 1]) >= rows))
    return failure(MEBP_CORRUPT, "the device asks for waves that the bundle has no room for");
  return crossInWaves(first, command.sequence);
}

// The same walk on both sides: each has its own programs.
Status Generation::crossInWaves(uint32_t first, uint32_t count) {
  Exchange &exchange = *engine->passing();
  const LiveShape live[] = {{batch, first}, {batch, count - first}};
  const uint32_t position[] = {length, length + first};
  const Rows wanted[] = {{nullptr, 0}, exchange.selection()};
  for (uint32_t wave : {0, 1}) {
    Blocks &blocks = waves[wave].blocks;
    Status status =
        exchange.isDevice() ? decodeHere(0, exchange.first(), blocks, live[wave], position[wave]) : Status();
    if (status.ok() && exchange.isDevice() && wave == 0)
      status = exchange.command({FrameKind::Waves, batch, count, length});
    if (status.ok())
      status = blocks.enterForward(exchange.first(), live[wave]);
    if (status.ok())
      status = blocks.runForward(opening, exchange.first(), live[wave], position[wave], true);
    if (!status.ok())
      return status;
  }
  for (uint32_t block = exchange.first(); block < exchange.end(); ++block)
    for (uint32_t wave : {0, 1}) {
      Blocks &blocks = waves[wave].blocks;
      Status status;
      for (const auto *next = &opening + 1; status.ok() && next != format::forwardPrograms.end(); ++next)
        status = blocks.runForward(*next, block, live[wave], position[wave], true);
      if (status.ok() && block + 1 < exchange.end())
        status = blocks.runForward(opening, block + 1, live[wave], position[wave], true);
      if (!status.ok())
        return status;
    }
  for (uint32_t wave : {0, 1}) {
    Blocks &blocks = waves[wave].blocks;
    exchange.select(wanted[wave]);
    Status status = blocks.leaveForward(exchange.end() - 1, live[wave]);
    if (status.ok() && exchange.isDevice())
      status = decodeHere(exchange.end(), blocks.head(), blocks, live[wave], position[wave]);
    if (!status.ok())
      return status;
  }
  length += count;
  return waves[1].blocks.wait();
}

} // namespace mebp
