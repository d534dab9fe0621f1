// SPDX-License-Identifier: Apache-2.0
//
// Going back to an earlier place of a text. Keys and values are there by position, unless a window has let go of them.
// A recurrence has one state of all positions so far, so there is a copy of it as it was before the last pass of
// several tokens, and the text goes back to there or to its beginning:
//
// 1. A prompt's last tokens are a pass of their own: the next turn of a conversation goes on from there, and so does
//    another answer to the same prompt.
// 2. Where only some tokens of a draft are kept, these are computed again, from the copy on.
//
// The two halves of a split model see the same passes, so their copies are of the same place.
#include <cstring>
#include <utility>

#include "runtime/generate/generation.h"

namespace mebp {

// A chat template may write the end of a prompt otherwise once there is an answer, and the logits behind the last token
// are asked for again.
constexpr uint32_t lastTokens = 16;

bool Generation::isCarried() const {
  if (engine->bundle().content().split().ring() == 1) // the other half's
    return true;
  for (const std::vector<layout::StatePlace> &block : layout.states)
    for (const layout::StatePlace &state : block)
      if (state.isCarried)
        return true;
  return false;
}

// Of a prompt's tokens. Over a wire one more pass would cost round trips.
uint32_t Generation::lastPassOf(uint32_t count) const {
  const bool isApart = count >= lastTokens + 2 && layout.rows / batch > 2 && // two at least, also before it
                       !engine->bundle().content().has_split() && isCarried();
  return isApart ? lastTokens : count;
}

// Before a pass of `count` tokens.
void Generation::copyStates(uint32_t count) {
  if (count < 2 || copied == length || !isCarried())
    return;
  copied = length;
  for (const std::vector<layout::StatePlace> &block : layout.states)
    for (const layout::StatePlace &state : block)
      if (state.isCarried)
        std::memcpy(arena.data() + state.copy, arena.data() + state.offset, batch * state.itemBytes());
}

void Generation::bringStatesBack() {
  for (const std::vector<layout::StatePlace> &block : layout.states)
    for (const layout::StatePlace &state : block)
      if (state.isCarried)
        std::memcpy(arena.data() + state.offset, arena.data() + state.copy, batch * state.itemBytes());
}

// Whether keys and values of what the next token looks back to are there.
bool Generation::hasRowsOf(uint32_t wanted) const {
  const format::Bundle &content = engine->bundle().content();
  // What has been written since then lies where a ring of this length had what came before it.
  auto keeps = [&](uint64_t ring, uint64_t slack) {
    return written <= ring || wanted >= written || written - wanted <= slack;
  };
  for (const std::vector<layout::StatePlace> &block : layout.states)
    for (const layout::StatePlace &state : block)
      if (state.window && !keeps(state.capacity, state.capacity - state.window + 1))
        return false;
  const format::Split &split = content.split();
  return split.ring() == 0 || split.ring() >= content.model().positions() || keeps(split.ring(), split.ring_slack());
}

Status Generation::rewind(uint32_t wanted) {
  const uint32_t before = length - std::exchange(drafted, 0); // the draft, where there is one
  uint32_t kept = std::min(wanted, length), again = 0;
  const bool goesBack = kept < length && isCarried();
  if (goesBack) {
    again = copied == before && copied < kept ? kept - copied : 0;
    kept = copied <= kept ? copied : 0;
  }
  if (kept > 0 && !hasRowsOf(kept))
    kept = again = 0;
  if (kept == 0)
    beginAnew();
  else if (goesBack)
    bringStatesBack();
  length = kept;
  if (again == 0)
    return Status();
  return engine->otherHalf.call([&]() -> Status {
    if (Status status = catchUp(kept); !status.ok())
      return status;
    return stepOverDraft(again);
  });
}

} // namespace mebp
