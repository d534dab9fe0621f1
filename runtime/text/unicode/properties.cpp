// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/unicode/properties.h"

#include <algorithm>
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

} // namespace

bool isSpace(char32_t character) {
  if (character < 0x85)
    return character == ' ' || (character >= '\t' && character <= '\r');
  return character == 0x85 || isBetween(categoryOf(character), UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool isNumber(char32_t character) {
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) !=
         (differences::find(differences::numbers, character) != nullptr);
}

bool isPunctuation(char32_t character) {
  if (character < 0x80)
    return character > ' ' && character < 0x7F && !(character >= '0' && character <= '9') &&
           !((character | 0x20) >= 'a' && (character | 0x20) <= 'z');
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) !=
         (differences::find(differences::punctuation, character) != nullptr);
}

bool isMark(char32_t character) {
  return (categoryOf(character) == UTF8PROC_CATEGORY_MN) !=
         (differences::find(differences::marks, character) != nullptr);
}

bool isAnyMark(char32_t character) {
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) !=
         (differences::find(differences::anyMarks, character) != nullptr);
}

bool isOther(char32_t character) {
  const utf8proc_category_t category = categoryOf(character);
  const bool isOne =
      category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
  return isOne != (differences::find(differences::others, character) != nullptr);
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

std::pair<char32_t, char32_t> toLower(char32_t character) {
  if (character == 0x130) // the only one that becomes two
    return {'i', 0x307};
  if (const auto *range = differences::find(differences::lower, character))
    return {character + static_cast<char32_t>(range->distance), 0};
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))), 0};
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
