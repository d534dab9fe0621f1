// SPDX-License-Identifier: Apache-2.0
//
// Tags are those of python/mebp/data/thoughts.py: < or [ or a white triangle, up to two of | and /, a name with
// "think", "thought" or "reason" in it, a | or none, and what closes it.
#include "runtime/text/data/empty_thought.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "runtime/text/data/white_space.h"

namespace mebp::text {

static constexpr size_t mostSpaces = 9, mostAround = 20;

static void skipSpaces(std::string_view &text) {
  for (size_t i = 0; i < mostSpaces; ++i)
    text.remove_prefix(whiteSpaceAt(text));
}

static bool skip(std::string_view &text, std::string_view what) {
  if (text.substr(0, what.size()) != what)
    return false;
  text.remove_prefix(what.size());
  return true;
}

static bool isOfName(char c) {
  return c == '_' || c == ':' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Whether at most 20 characters stand before the word and behind it.
static bool namesThought(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (std::string_view word : {"think", "thought", "reason"})
    for (size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1))
      if (at <= mostAround && name.size() - at - word.size() <= mostAround)
        return true;
  return false;
}

static bool skipTag(std::string_view &text) {
  static constexpr std::string_view opening[] = {"<", "[", "\u25C1"}, closing[] = {">", "]", "\u25B7"};
  const auto skipOne = [&](const auto &signs) {
    return std::any_of(std::begin(signs), std::end(signs), [&](std::string_view sign) { return skip(text, sign); });
  };
  if (!skipOne(opening))
    return false;
  for (int i = 0; i < 2; ++i)
    if (!skip(text, "|"))
      skip(text, "/");
  const auto *end = std::find_if_not(text.begin(), text.end(), isOfName);
  const std::string name(text.begin(), end);
  text.remove_prefix(name.size());
  skip(text, "|");
  return namesThought(name) && skipOne(closing);
}

size_t endOfEmptyThought(std::string_view text) {
  const size_t size = text.size();
  skipSpaces(text);
  if (!skipTag(text))
    return 0;
  skipSpaces(text);
  if (!skipTag(text))
    return 0;
  skipSpaces(text);
  return size - text.size();
}

} // namespace mebp::text
