// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/unicode/properties.h"

#include <algorithm>
#include <cstdlib>

#include <utf8proc.h>

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
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool isPunctuation(char32_t character) {
  if (character < 0x80)
    return character > ' ' && character < 0x7F && !(character >= '0' && character <= '9') &&
           !((character | 0x20) >= 'a' && (character | 0x20) <= 'z');
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool isMark(char32_t character) { return categoryOf(character) == UTF8PROC_CATEGORY_MN; }

bool isAnyMark(char32_t character) {
  return isBetween(categoryOf(character), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool isOther(char32_t character) {
  const utf8proc_category_t category = categoryOf(character);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool isWord(char32_t character) {
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
  utf8proc_uint8_t *out = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &out, static_cast<utf8proc_option_t>(options));
  if (bytes < 0)
    return false;
  text.assign(reinterpret_cast<const char *>(out), static_cast<size_t>(bytes));
  std::free(out);
  return true;
}

void appendLower(std::string &out, char32_t character) {
  if (character == 0x130) { // the only one that becomes two
    append(out, 'i');
    return append(out, 0x307);
  }
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
