// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/traced_text.h"

#include <algorithm>

#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

TracedText TracedText::of(std::string_view part, size_t begin, bool isTraced) {
  TracedText made{std::string(part), isTraced, {}};
  if (!isTraced)
    return made;
  made.origins.reserve(part.size());
  for (size_t at = 0; at < part.size();) {
    const size_t end = at + characterLength(static_cast<unsigned char>(part[at]));
    made.origins.insert(made.origins.end(), end - at, {begin + at, begin + end});
    at = end;
  }
  return made;
}

TracedText TracedText::part(size_t begin, size_t end) const {
  TracedText made{text.substr(begin, end - begin), isTraced, {}};
  if (isTraced)
    made.origins.assign(origins.begin() + static_cast<ptrdiff_t>(begin), origins.begin() + static_cast<ptrdiff_t>(end));
  return made;
}

void Rewriting::put(char32_t character, int change) {
  const size_t before = made.text.size();
  append(made.text, character);
  if (!made.isTraced)
    return;
  Span origin = {0, 0};
  if (change > 0 && at > 0)
    origin = old.origins[at - 1];
  else if (change <= 0 && !old.origins.empty())
    origin = old.origins[std::min(at, old.origins.size() - 1)];
  made.origins.insert(made.origins.end(), made.text.size() - before, origin);
  if (change <= 0)
    leaveOut(static_cast<size_t>(1 - change));
}

void Rewriting::leaveOut(size_t characters) {
  for (; made.isTraced && characters > 0 && at < old.text.size(); --characters)
    at += characterLength(static_cast<unsigned char>(old.text[at]));
}

void Rewriting::copy(size_t begin, size_t end) {
  made.text.append(old.text, begin, end - begin);
  if (made.isTraced)
    made.origins.insert(made.origins.end(), old.origins.begin() + static_cast<ptrdiff_t>(begin),
                        old.origins.begin() + static_cast<ptrdiff_t>(end));
}

void Rewriting::put(std::string_view text, Span origin) {
  made.text.append(text);
  if (made.isTraced)
    made.origins.insert(made.origins.end(), text.size(), origin);
}

} // namespace mebp::text
