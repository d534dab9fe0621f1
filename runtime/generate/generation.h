// SPDX-License-Identifier: Apache-2.0
//
// Text, one token after another: the programs of generation over the keys and values of all earlier tokens. It borrows
// the session's adapter, weights and backend, and has memory of its own, so that a session that trains pays nothing.
//
// Kernels may compute a step of one position otherwise than one of several, which rounds differently. So a step that is
// given several takes at least two at once: then it gives the same bits however it is cut.
#pragma once

#include <cstdint>

#include "layout/generation.h"
#include "runtime/train/engine.h"

namespace mebp {

class Generation {
public:
  ~Generation() {
    if (engine)
      engine->check.giveBack(arena.data(), layout.total());
  }
  Status create(Engine &owner);

  // Extends each of `batch` sequences by `count` tokens, ids[batch * count]. Where `logits` is not null, it gets those
  // of the last token of each: [batch, vocabulary]. Where this fails, `positions` says what there is.
  Status append(const int32_t *ids, uint32_t batch, uint32_t count, float *logits);
  // Extends the one sequence by tokens that may be forgotten again, in one pass that gives the bits of one token after
  // the other; then the logits after each, by its number among them.
  Status appendDraft(const int32_t *ids, uint32_t count);
  Status draftLogits(uint32_t number, float *logits);
  uint32_t mostDrafted() const; // at once
  // Forgets all but the first `wanted` positions. Where a window or a recurrence has lost what lies before these, it
  // goes back further. Of a draft it computes again what is kept.
  Status rewind(uint32_t wanted);
  // Continues the one sequence as `count` of them.
  Status spread(uint32_t count);

  uint32_t positions() const { return length; }
  // A server's: its layers for the next rows of each sequence, whose hidden states come from the device.
  Status serve(const Command &command);

private:
  Status check(const int32_t *ids, uint32_t sequences, uint32_t count) const;
  void remember(const int32_t *ids, uint32_t count);
  Status catchUp(uint32_t before);
  Status extend(const int32_t *ids, uint32_t stride, uint32_t count);
  Status step(const int32_t *ids, uint32_t stride, LiveShape live);
  Status stepOverDraft(uint32_t count);
  Status giveUp(Status status); // of a step that failed
  void beginAnew();

  // What a recurrence needs to go back, in rewind.cpp.
  bool isCarried() const;
  uint32_t lastPassOf(uint32_t count) const;
  void copyStates(uint32_t count);
  void bringStatesBack();
  bool hasRowsOf(uint32_t wanted) const;

  // What passes between blocks, and the programs that take it from there.
  struct Wave {
    BatchMemory tokens;
    Checkpoints flows;
    Remote remote;
    Blocks blocks;
  };
  void create(Wave &wave, uint32_t firstRow, std::vector<layout::Border> borders, const StatePlaces &states);
  Status take(Wave &wave, const int32_t *ids, uint32_t stride, uint32_t count);
  // A pass of a prompt of half a model in two waves, in waves.cpp.
  Status stepInWaves(const int32_t *ids, uint32_t stride, uint32_t first, uint32_t count);
  Status serveWaves(const Command &command);
  Status crossInWaves(uint32_t first, uint32_t count);

  Rows lastRows(uint32_t count);
  Rows allRows(uint32_t count);
  Status askFor(Rows rows);
  Status giveLogits(uint32_t count, float *logits);
  // Of a device: all tokens so far, [batch, positions].
  int32_t *draft() { return reinterpret_cast<int32_t *>(arena.data() + layout.draft); }
  int32_t *history() { return reinterpret_cast<int32_t *>(arena.data() + layout.history); }

  Engine *engine = nullptr;
  layout::GenerationPlan layout;
  Arena arena;
  Buffers buffers;        // it, beside the session's
  Wave waves[2];          // the second one of half a model alone
  Wave *last = &waves[0]; // whose results logits are of
  uint32_t batch = 1;
  uint32_t length = 0;    // of every sequence
  uint32_t copied = 0;    // positions that the copies of carried states are of; 0: there are none
  uint32_t drafted = 0;   // tokens of the last pass, whose logits may be asked for
  uint32_t lastTaken = 0; // rows of each in the last step, of its last wave
  uint32_t written = 0;   // the highest length that any step wrote up to since the last time that there was none
};

} // namespace mebp
