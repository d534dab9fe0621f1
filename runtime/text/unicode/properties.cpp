// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/unicode/properties.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <utf8proc.h>

#include "runtime/text/unicode/differences.h"
#include "runtime/text/unicode/newer_characters.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

utf8proc_category_t categoryOf(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool isBetween(utf8proc_category_t category, utf8proc_category_t first, utf8proc_category_t last) {
  return category >= first && category <= last;
}

template <typename Range, size_t count> const Range *findRange(const Range (&ranges)[count], char32_t character) {
  const Range *found = std::lower_bound(std::begin(ranges), std::end(ranges), character,
                                        [](const Range &range, char32_t sought) { return range.last < sought; });
  return found != std::end(ranges) && found->first <= character ? found : nullptr;
}

bool normalizePart(std::string_view text, int options, std::string &out) {
  utf8proc_uint8_t *made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(options));
  if (bytes >= 0)
    out.append(reinterpret_cast<const char *>(made), static_cast<size_t>(bytes));
  std::free(made);
  return bytes >= 0;
}

} // namespace

bool isSpace(char32_t character) {
  if (character < 0x85)
    return character == ' ' || (character >= '\t' && character <= '\r');
  return character == 0x85 || isBetween(categoryOf(character), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool isNumber(char32_t character) {
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) !=
         (findRange(differences::numbers, character) != nullptr);
}

bool isPunctuation(char32_t character) {
  if (character < 0x80)
    return character > ' ' && character < 0x7F && !(character >= '0' && character <= '9') &&
           !((character | 0x20) >= 'a' && (character | 0x20) <= 'z');
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) !=
         (findRange(differences::punctuation, character) != nullptr);
}

bool isMark(char32_t character) {
  return (categoryOf(character) == UTF8PROC_CATEGORY_MN) != (findRange(differences::marks, character) != nullptr);
}

bool isAnyMark(char32_t character) {
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) !=
         (findRange(differences::anyMarks, character) != nullptr);
}

bool isOther(char32_t character) {
  const utf8proc_category_t category = categoryOf(character);
  const bool isOne =
      category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
  return isOne != (findRange(differences::others, character) != nullptr);
}

bool isWord(char32_t character) {
  if (const char32_t older = olderCharacter(character)) // utf8proc knows Unicode 15 alone
    character = older;
  const utf8proc_category_t category = categoryOf(character);
  return isBetween(category, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_ND) || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_PC || character == 0x200C || character == 0x200D ||
         (character >= 0x24B6 && character <= 0x24E9) || (character >= 0x1F130 && character <= 0x1F149) ||
         (character >= 0x1F150 && character <= 0x1F169) || (character >= 0x1F170 && character <= 0x1F189);
}

bool isHan(char32_t character) {
  static constexpr char32_t ranges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                           {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                           {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const auto &range) { return character >= range[0] && character <= range[1]; });
}

bool normalize(std::string &text, Form form) {
  if (std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<signed char>(byte) >= 0; }))
    return true;
  int options = UTF8PROC_STABLE;
  options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd)
    options |= UTF8PROC_COMPAT;
  std::string out;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t character = nextCharacter(text, at);
    const bool stays = character > 0x7F && findRange(differences::undecomposed, character) &&
                       (options & UTF8PROC_COMPAT || (form == Form::nfd && character == 0x11938));
    if (!stays)
      continue;
    if (!normalizePart(std::string_view(text).substr(done, begin - done), options, out))
      return false;
    out.append(text, begin, at - begin);
    done = at;
  }
  if (!normalizePart(std::string_view(text).substr(done), options, out))
    return false;
  text = std::move(out);
  return true;
}

void appendLower(std::string &out, char32_t character) {
  if (character == 0x130) { // the only one that becomes two
    append(out, 'i');
    return append(out, 0x307);
  }
  if (const auto *range = findRange(differences::lower, character))
    return append(out, character + static_cast<char32_t>(range->distance));
  append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
}

size_t clusterEnd(std::string_view text, size_t at) {
  utf8proc_int32_t state = 0;
  auto before = static_cast<utf8proc_int32_t>(nextCharacter(text, at));
  while (at < text.size()) {
    size_t next = at;
    const auto character = static_cast<utf8proc_int32_t>(nextCharacter(text, next));
    if (utf8proc_grapheme_break_stateful(before, character, &state))
      break;
    before = character;
    at = next;
  }
  return at;
}

} // namespace mebp::text
