// SPDX-License-Identifier: Apache-2.0
//
// A conversation as tokens, by the model's chat template and tokenizer.
#pragma once

#include <cstdint>
#include <vector>

#include "mebp/data.h"
#include "runtime/text/chat/pieces.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace mebp::text {

// The ids of the whole text, and which of them count (mebp_chat_count).
Status encodeConversation(const ChatPieces &pieces, Tokenizer &tokenizer, const mebp_data_turn *turns,
                          uint32_t turnCount, bool everything, std::vector<int32_t> &ids, std::vector<bool> &counts);

} // namespace mebp::text
