// SPDX-License-Identifier: Apache-2.0
//
// mebp_token_source_open: a bundle's tokenizer and chat template behind the functions that any source has.
#include <algorithm>
#include <memory>

#include "mebp/chat.h"
#include "runtime/core/edge.h"
#include "runtime/text/chat/conversation.h"
#include "runtime/text/source/text_marks.h"

using namespace mebp;
using namespace mebp::text;

namespace {

struct BundleSource {
  ~BundleSource() {
    mebp_chat_close(chat);
    mebp_tokenizer_close(tokenizer);
  }
  mebp_tokenizer *tokenizer = nullptr;
  mebp_chat *chat = nullptr; // null: the template has no pieces
  TextMarks marks;
};

mebp_code encode(void *user, const char *text, size_t bytes, int32_t *ids, size_t room, size_t *count,
                 mebp_error *error) {
  return mebp_tokenizer_encode(static_cast<BundleSource *>(user)->tokenizer, text, bytes, false, ids, room, count,
                               error);
}

mebp_code compose(void *user, const mebp_data_turn *turns, uint32_t turn_count, bool everything, int32_t *ids,
                  bool *counts, size_t room, size_t *count, mebp_error *error) {
  return guarded(error, {}, [&] {
    const auto &source = *static_cast<BundleSource *>(user);
    std::vector<int32_t> found;
    std::vector<bool> isCounted;
    if (Status status = encodeConversation(source.chat->pieces, *source.tokenizer->tokenizer, turns, turn_count,
                                           everything, found, isCounted);
        !status.ok())
      return status;
    *count = found.size();
    if (found.size() <= room) {
      std::copy(found.begin(), found.end(), ids);
      std::copy(isCounted.begin(), isCounted.end(), counts);
    }
    return Status();
  });
}

Status statusOf(mebp_code code, const mebp_error &error) {
  return code == MEBP_OK ? Status() : Status(code, error.message);
}

Status open(const char *bundle, mebp_token_source *out) {
  auto made = std::make_unique<BundleSource>();
  mebp_error error = {};
  if (Status status = statusOf(mebp_tokenizer_open(bundle, &made->tokenizer, &error), error); !status.ok())
    return status;
  const mebp_code code = mebp_chat_open(bundle, &made->chat, &error);
  if (code != MEBP_NOT_FOUND)
    if (Status status = statusOf(code, error); !status.ok())
      return status;
  Result<TextMarks> marks = readTextMarks(std::string(bundle) + "/tokenizer", *made->tokenizer->tokenizer);
  if (!marks.ok())
    return marks.status();
  made->marks = std::move(*marks);
  mebp_token_source source;
  mebp_token_source_init(&source);
  source.before = made->marks.before.data();
  source.before_count = static_cast<uint32_t>(made->marks.before.size());
  source.end_of_text = made->marks.endOfText;
  source.end_of_sequence = made->marks.endOfSequence;
  source.stops = made->marks.stops.data();
  source.stop_count = static_cast<uint32_t>(made->marks.stops.size());
  source.encode = encode;
  source.compose = made->chat ? compose : nullptr;
  source.user = made.release();
  writeSized(source, out);
  return Status();
}

} // namespace

mebp_code mebp_token_source_open(const char *bundle, mebp_token_source *out, mebp_error *error) {
  return guarded(error, {{"bundle", bundle}, {"out", out}}, [&] {
    mebp_token_source given;
    if (Status status = readSized("mebp_token_source", out, given); !status.ok())
      return status;
    return open(bundle, out);
  });
}

void mebp_token_source_close(mebp_token_source *source) {
  if (!source || source->encode != encode)
    return;
  delete static_cast<BundleSource *>(source->user);
  source->user = nullptr;
  source->encode = nullptr;
}
