// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/generation.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/train/rows.h"
#include "runtime/train/serve.h"

namespace mebp {

Status Generation::create(Engine &owner) {
  engine = &owner;
  const format::Bundle &content = owner.bundle().content();
  if (content.model().positions() == 0)
    return failure(MEBP_UNSUPPORTED,
                   "the bundle was compiled without generation; compile it with --generate-len N, the most tokens that "
                   "a prompt and its answer have together");
  if (!owner.bundle().hasAllWeights())
    return failure(MEBP_UNSUPPORTED, "weights that on_block hands in are those of steps, losses and logits; open the "
                                     "whole bundle to generate text");
  const layout::Facts facts = layout::factsOf(content);
  layout = layout::planGeneration(facts, !owner.backend->followsPlacements(), owner.check.isApart());
  Result<Arena> allocated = Arena::allocate(layout.total(), owner.settings.allocator, owner.check.isOn());
  if (!allocated.ok())
    return allocated.status();
  arena = std::move(*allocated);
  StatePlaces places;
  for (const std::vector<layout::StatePlace> &block : layout.states) {
    places.emplace_back();
    for (const layout::StatePlace &state : block)
      places.back().push_back(arena.data() + state.offset);
  }
  buffers.create(*owner.backend, &owner.buffers);
  buffers.add(arena.data(), layout.total(), Access::Shared);
  const std::vector<layout::Border> borders = layout::bordersOf(facts, true);
  create(waves[0], 0, borders, places);
  if (content.has_split() && format::secondWaveRow(layout.rows))
    create(waves[1], format::secondWaveRow(layout.rows), borders, places);
  return Status();
}

// From a row of the layout's memory on.
void Generation::create(Wave &wave, uint32_t firstRow, std::vector<layout::Border> borders, const StatePlaces &states) {
  for (layout::Border &border : borders)
    for (layout::Flow &flow : border.flows)
      flow.offset += firstRow * flow.rowBytes;
  layout::RemotePlan remote = layout.remote;
  for (std::vector<layout::RemoteValue> &block : remote.blocks)
    for (layout::RemoteValue &value : block)
      value.offset += firstRow * value.rowBytes;
  wave.flows.create(layout.flows, std::move(borders), arena.data(), engine->spill, engine->check);
  wave.remote.create(std::move(remote), arena.data());
  wave.tokens.placeOf(format::idsPort) = arena.data() + layout.ids + firstRow * sizeof(int32_t);
  Engine &owner = *engine;
  const BoundMemory memory = {owner.bundle(),         buffers,         wave.tokens, wave.flows, owner.trainables,
                              owner.lane().gradients, owner.subspaces, wave.remote, &states};
  wave.blocks.create(memory, owner.settings, *owner.backend, buffers.find(arena.data() + layout.scratch), owner.weights,
                     owner.peak, owner.cancellation, owner.trace, owner.passing(), nullptr, owner.check);
}

Status Generation::check(const int32_t *ids, uint32_t sequences, uint32_t count) const {
  const format::Model &model = engine->bundle().content().model();
  if (sequences == 0 || count == 0)
    return failure(MEBP_INVALID_ARGUMENT, "a step needs at least one token, not %u x %u", sequences, count);
  if (sequences > model.batch())
    return failure(MEBP_OUT_OF_RANGE,
                   "%u sequences are more than the %u that the bundle was compiled for; compile with --batch %u",
                   sequences, model.batch(), sequences);
  if (length > 0 && sequences != batch)
    return failure(MEBP_INVALID_ARGUMENT, "there are %u sequences, so a step has one token of each, not of %u", batch,
                   sequences);
  if (count > model.positions() - length)
    return failure(
        MEBP_OUT_OF_RANGE,
        "%llu tokens are more than the %u that the bundle has room for; shorten the prompt or compile with a "
        "longer --generate-len",
        static_cast<unsigned long long>(length) + count, model.positions());
  for (uint64_t i = 0; i < static_cast<uint64_t>(sequences) * count; ++i)
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= model.vocabulary())
      return failure(MEBP_OUT_OF_RANGE, "token %d is beyond the vocabulary of %u", ids[i], model.vocabulary());
  return Status();
}

Status Generation::append(const int32_t *ids, uint32_t sequences, uint32_t count, float *logits) {
  if (Status status = check(ids, sequences, count); !status.ok())
    return status;
  batch = sequences;
  const uint32_t before = length;
  remember(ids, count);
  return engine->otherHalf.call([&]() -> Status {
    if (Status status = catchUp(before); !status.ok())
      return status;
    if (Status status = extend(ids, count, count); !status.ok())
      return status;
    return logits ? giveLogits(lastTaken, logits) : Status();
  });
}

// Of a device that has a server, which may forget.
void Generation::remember(const int32_t *ids, uint32_t count) {
  if (!engine->passing())
    return;
  const uint32_t positions = engine->bundle().content().model().positions();
  for (uint32_t item = 0; item < batch; ++item)
    std::memcpy(history() + static_cast<size_t>(item) * positions + length, ids + static_cast<size_t>(item) * count,
                count * sizeof(int32_t));
}

// Where the server has not the keys and values of what came before, they are computed again, as those of a prompt.
Status Generation::catchUp(uint32_t before) {
  Exchange *exchange = engine->passing();
  if (!exchange || exchange->isDecoding(this))
    return Status();
  exchange->beginDecoding(this);
  beginAnew();
  return extend(history(), engine->bundle().content().model().positions(), before);
}

// `ids` points to the first sequence's; those of the next one lie `stride` further.
Status Generation::extend(const int32_t *ids, uint32_t stride, uint32_t count) {
  const uint32_t most = std::min(layout.rows / batch, engine->bundle().content().model().sequence());
  drafted = 0;
  const uint32_t apart = count - lastPassOf(count);
  uint32_t taken = 0;
  for (uint32_t done = 0; done < count; done += taken) {
    const uint32_t left = (done < apart ? apart : count) - done;
    taken = std::min(most, left);
    if (left - taken == 1 && taken > 2)
      --taken; // so that two are left
    const uint32_t first = engine->passing() ? format::firstWave(layout.rows, batch, taken) : 0;
    Status status = first ? stepInWaves(ids + done, stride, first, taken) : step(ids + done, stride, {batch, taken});
    if (!status.ok())
      return giveUp(status);
    last = &waves[first ? 1 : 0];
    lastTaken = taken - first;
  }
  return Status();
}

Status Generation::appendDraft(const int32_t *ids, uint32_t count) {
  drafted = 0;
  if (Status status = check(ids, 1, count); !status.ok())
    return status;
  if (count > mostDrafted())
    return failure(MEBP_OUT_OF_RANGE, "a draft has %u tokens, and one pass takes up to %u; give fewer", count,
                   mostDrafted());
  batch = 1;
  const uint32_t before = length;
  remember(ids, count);
  std::memcpy(draft(), ids, count * sizeof(int32_t));
  return engine->otherHalf.call([&]() -> Status {
    if (Status status = catchUp(before); !status.ok())
      return status;
    if (Status status = stepOverDraft(count); !status.ok())
      return status;
    drafted = count;
    return Status();
  });
}

// The first `count` tokens of the draft.
Status Generation::stepOverDraft(uint32_t count) {
  Status status = step(draft(), count, {batch, count, true});
  return status.ok() ? status : giveUp(status);
}

// Some states have taken the step's tokens, and others have not. Keys and values are written again; what is carried
// cannot go back.
Status Generation::giveUp(Status status) {
  if (isCarried())
    beginAnew();
  return status;
}

void Generation::beginAnew() { length = written = copied = 0; }

uint32_t Generation::mostDrafted() const {
  return std::min(layout.rows, engine->bundle().content().model().sequence());
}

Status Generation::draftLogits(uint32_t number, float *logits) {
  if (number >= drafted)
    return failure(MEBP_OUT_OF_RANGE, "the last pass drafted %u tokens, so there are no logits after number %u",
                   drafted, number);
  return waves[0].blocks.decodeLogits(number, 1, logits);
}

// `ids` points to the first sequence's; those of the next one lie `stride` further.
Status Generation::take(Wave &wave, const int32_t *ids, uint32_t stride, uint32_t count) {
  int32_t *own = wave.tokens.ids();
  for (uint32_t item = 0; item < batch; ++item)
    std::memcpy(own + static_cast<size_t>(item) * count, ids + static_cast<size_t>(item) * stride,
                count * sizeof(int32_t));
  const uint32_t vocabulary = engine->bundle().content().model().vocabulary();
  for (uint32_t i = 0; i < batch * count; ++i) // the copy: the caller's own may have changed since
    if (static_cast<uint32_t>(own[i]) >= vocabulary)
      return failure(MEBP_OUT_OF_RANGE, "token %d is beyond the vocabulary of %u", own[i], vocabulary);
  return Status();
}

Status Generation::step(const int32_t *ids, uint32_t stride, LiveShape live) {
  const uint32_t count = live.sequence;
  Blocks &blocks = waves[0].blocks;
  if (Status status = take(waves[0], ids, stride, count); !status.ok())
    return status;
  copyStates(count);
  written = std::max(written, length + count);
  if (Status status = askFor(live.isDraft ? allRows(count) : lastRows(count)); !status.ok())
    return status;
  for (uint32_t block = 0; block < blocks.head(); ++block)
    if (Status status = blocks.decode(block, live, length); !status.ok())
      return status;
  if (Status status = blocks.wait(); !status.ok())
    return status;
  length += count;
  if (count > 1 && !live.isDraft)
    engine->peak.sample();
  return Status();
}

// The last of each sequence's rows, of which a step has so many.
Rows Generation::lastRows(uint32_t count) {
  auto *last = reinterpret_cast<int32_t *>(arena.data() + layout.wantedRows);
  for (uint32_t item = 0; item < batch; ++item)
    last[item] = static_cast<int32_t>((item + 1) * count - 1);
  return {last, batch};
}

Rows Generation::allRows(uint32_t count) {
  auto *all = reinterpret_cast<int32_t *>(arena.data() + layout.wantedRows);
  std::iota(all, all + count, 0);
  return {all, count};
}

// Of a server, which gives no others.
Status Generation::askFor(Rows rows) {
  const format::Bundle &content = engine->bundle().content();
  if (!content.has_split())
    return Status();
  if (!engine->passing())
    return noServer(content);
  if (engine->passing()->isDevice())
    engine->passing()->select(rows);
  return Status();
}

Status Generation::giveLogits(uint32_t count, float *logits) {
  last->flows.gatherHeadInput(lastRows(count));
  return last->blocks.decodeLogits(0, batch, logits);
}

Status Generation::serve(const Command &command) {
  const format::Model &model = engine->bundle().content().model();
  if (command.batch == 0 || command.sequence == 0 || command.batch > model.batch() ||
      static_cast<uint64_t>(command.batch) * command.sequence > layout.rows || command.position > written ||
      command.sequence > model.positions() - command.position)
    return failure(MEBP_CORRUPT, "the device asks for positions that the bundle has no room for");
  if (command.position == 0)
    beginAnew();
  else if (isCarried() && command.position != length) {
    if (command.position != copied || command.batch != batch)
      return failure(MEBP_CORRUPT, "the device asks a recurrence to go back to where it has no copy of its state");
    bringStatesBack();
  }
  batch = command.batch;
  length = command.position;
  copyStates(command.sequence);
  written = std::max(written, length + command.sequence);
  if (command.kind == format::FrameKind::Waves) {
    Status status = serveWaves(command);
    return status.ok() ? status : giveUp(status);
  }
  Blocks &blocks = waves[0].blocks;
  const Exchange &exchange = *engine->passing();
  const LiveShape live = {batch, command.sequence, command.kind == format::FrameKind::Draft};
  for (uint32_t block = exchange.first(); block < exchange.end(); ++block)
    if (Status status = blocks.decode(block, live, length); !status.ok())
      return giveUp(status);
  length += command.sequence;
  Status status = blocks.wait();
  return status.ok() ? status : giveUp(status);
}

static void spreadItem(unsigned char *first, uint32_t count, uint64_t stride, uint64_t bytes) {
  for (uint32_t item = 1; item < count; ++item)
    std::memcpy(first + item * stride, first, bytes);
}

Status Generation::spread(uint32_t count) {
  const format::Model &model = engine->bundle().content().model();
  if (length == 0 || batch != 1)
    return failure(MEBP_INVALID_ARGUMENT, "one sequence can be continued as several, and there are %u",
                   length == 0 ? 0 : batch);
  if (count == 0 || count > model.batch())
    return failure(MEBP_OUT_OF_RANGE, "%u sequences; the bundle was compiled for up to %u, compile with --batch %u",
                   count, model.batch(), count);
  for (const std::vector<layout::StatePlace> &block : layout.states)
    for (const layout::StatePlace &state : block) {
      const uint64_t rows = state.isCarried ? state.capacity : std::min<uint64_t>(written, state.capacity);
      spreadItem(arena.data() + state.offset, count, state.itemBytes(), rows * state.rowBytes);
      if (copied && state.isCarried)
        spreadItem(arena.data() + state.copy, count, state.itemBytes(), state.itemBytes());
    }
  batch = count;
  if (!engine->passing())
    return Status();
  for (uint32_t item = 1; item < count; ++item)
    std::memcpy(history() + static_cast<size_t>(item) * model.positions(), history(), length * sizeof(int32_t));
  engine->passing()->beginDecoding(nullptr); // the server has those of one
  return Status();
}

} // namespace mebp
