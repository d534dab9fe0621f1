// SPDX-License-Identifier: Apache-2.0
//
// tokenizer.json: what can be opened encodes, and decodes what it has encoded, whole and as it comes. Tokens and their
// places agree.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "mebp/tokenizer.h"
#include "target.h"

// Tokens with their places are those without, and lie in the text.
static void checkPlaces(mebp_tokenizer *tokenizer, const char *text) {
  std::vector<int32_t> ids(1024);
  std::vector<mebp_token> tokens(ids.size());
  size_t count = 0, placed = 0;
  mebp_error error;
  const size_t bytes = std::strlen(text);
  const mebp_code code = mebp_tokenizer_encode(tokenizer, text, bytes, false, ids.data(), ids.size(), &count, &error);
  if (mebp_tokenizer_place(tokenizer, text, bytes, tokens.data(), tokens.size(), &placed, &error) != code)
    std::abort();
  if (code != MEBP_OK)
    return;
  if (placed != count)
    std::abort();
  for (size_t i = 0; i < std::min(count, ids.size()); ++i)
    if (tokens[i].id != ids[i] || tokens[i].begin > tokens[i].end || tokens[i].end > bytes)
      std::abort();
}

static mebp_tokenizer *open(const uint8_t *data, size_t size) {
  // A value of JSON takes some hundred bytes, and two in the file; a word of the vocabulary as many in each index.
  mebp::fuzz::AllocationLimit limit(30 * size);
  mebp_tokenizer *tokenizer = nullptr;
  mebp_tokenizer_open_bytes(data, size, &tokenizer, nullptr);
  return tokenizer;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mebp_tokenizer *tokenizer = open(data, size);
  if (!tokenizer)
    return 0;
  mebp_error error;
  static constexpr char text[] = "The lamp's lit at 7.\n\n  caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80<s>";
  std::vector<int32_t> ids(1024);
  size_t count = 0, bytes = 0;
  if (mebp_tokenizer_encode(tokenizer, text, std::strlen(text), true, ids.data(), ids.size(), &count, &error) ==
          MEBP_OK &&
      count <= ids.size()) {
    mebp_tokenizer_decode(tokenizer, ids.data(), count, false, nullptr, 0, &bytes, &error);
    mebp_tokenizer_stream *stream = nullptr;
    if (mebp_tokenizer_stream_create(tokenizer, false, &stream, &error) == MEBP_OK) {
      const char *piece = nullptr;
      for (size_t index = 0; index < count; ++index)
        mebp_tokenizer_stream_push(stream, ids[index], &piece, &bytes, &error);
      mebp_tokenizer_stream_finish(stream, &piece, &bytes, &error);
      mebp_tokenizer_stream_free(stream);
    }
  }
  checkPlaces(tokenizer, text);
  mebp_tokenizer_close(tokenizer);
  return 0;
}
