// SPDX-License-Identifier: Apache-2.0
//
// Which tokens of a conversation count in the loss: those of conversation_row in python/mebp/data/conversations.py.
#pragma once

#include "mebp/chat.h"
#include "runtime/text/chat/pieces.h"

namespace mebp::text {

// Of each token of `composed`, which is of `turns`; with `everything`, what is not of answers counts, too.
std::vector<bool> findCounts(const ChatPieces &pieces, const Composed &composed, const std::vector<Turn> &turns,
                             const std::vector<mebp_token> &tokens, bool everything);

} // namespace mebp::text
