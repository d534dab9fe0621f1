// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/stream.h"

namespace mebp::text {

namespace {

bool endsOpen(const std::string &text) {
  static const std::string replacement = "\xEF\xBF\xBD";
  return text.size() >= replacement.size() &&
         text.compare(text.size() - replacement.size(), replacement.size(), replacement) == 0;
}

} // namespace

Status Stream::push(int32_t id) {
  given.clear();
  ids.push_back(id);
  if (tokenizer->isOpen(id))
    return Status();
  if (Status status = tokenizer->decode(ids.data(), ids.size(), skipsSpecialTokens, whole); !status.ok())
    return status;
  if (whole.size() <= before.size() || endsOpen(whole))
    return Status();
  given = whole.substr(before.size());
  ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(fresh));
  fresh = ids.size();
  return tokenizer->decode(ids.data(), ids.size(), skipsSpecialTokens, before);
}

Status Stream::finish() {
  given.clear();
  Status status = tokenizer->decode(ids.data(), ids.size(), skipsSpecialTokens, whole);
  if (status.ok() && whole.size() > before.size())
    given = whole.substr(before.size());
  ids.clear();
  before.clear();
  fresh = 0;
  return status;
}

} // namespace mebp::text
