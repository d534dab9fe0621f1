// SPDX-License-Identifier: Apache-2.0
//
// A chat template in pieces, tokenizer/chat.json, and conversations by what it has.
#include <algorithm>

#include "runtime/text/chat/counts.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace mebp::text;
  // A value of JSON takes some hundred bytes, and two in the file.
  mebp::fuzz::AllocationLimit limit(30 * size);
  mebp::Result<ChatPieces> pieces = ChatPieces::read({reinterpret_cast<const char *>(data), size});
  if (!pieces.ok())
    return 0;
  const std::vector<Turn> turns = {{"system", " s "},
                                   {"user", "\n<a>"},
                                   {"assistant", "<think></think> b\n"},
                                   {"user", "\u3000\u00e9 "},
                                   {"assistant", ""}};
  for (size_t first : {0, 1})
    for (size_t count = 1; first + count <= turns.size(); ++count)
      for (bool isPrompt : {false, true}) {
        const auto begin = turns.begin() + static_cast<ptrdiff_t>(first);
        std::vector<Turn> some(begin, begin + static_cast<ptrdiff_t>(count));
        some.back().isLearned = !isPrompt;
        mebp::Result<Composed> made = pieces->compose(some, isPrompt);
        if (!made.ok())
          continue;
        std::vector<mebp_token> tokens; // of up to three bytes, every second one of which may close a turn
        for (size_t at = 0; at < std::min<size_t>(made->text.size(), 64); at += 3)
          tokens.push_back({pieces->closing.empty() || at % 2 ? -1 : pieces->closing.back(), at,
                            std::min(at + 3, made->text.size())});
        for (bool everything : {false, true})
          findCounts(*pieces, *made, some, tokens, everything);
      }
  return 0;
}
