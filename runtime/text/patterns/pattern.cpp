// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/patterns/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/text/patterns/translate.h"
#include "runtime/text/unicode/newer_characters.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

struct Pattern::Compiled {
  pcre2_code *code = nullptr;
  pcre2_match_data *match = nullptr;
  Compiled() = default;
  Compiled(const Compiled &) = delete;
  ~Compiled() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

Result<Pattern> Pattern::regex(const std::string &expression) {
  constexpr size_t longest = 1 << 16;
  if (expression.size() > longest)
    return failure(MEBP_UNSUPPORTED, "the pattern has %zu bytes, more than %zu", expression.size(), longest);
  Result<std::string> translated = translate(expression);
  if (!translated.ok())
    return translated.status();
  const std::shared_ptr<Compiled> made = std::make_shared<Compiled>();
  int problem = 0;
  size_t where = 0;
  // A line begins and ends at \n alone, as in Ruby.
  pcre2_compile_context *context = pcre2_compile_context_create(nullptr);
  if (!context)
    throw std::bad_alloc();
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  made->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK, &problem, &where, context);
  pcre2_compile_context_free(context);
  if (!made->code) {
    PCRE2_UCHAR reason[128] = "";
    pcre2_get_error_message(problem, reason, sizeof(reason));
    return failure(MEBP_UNSUPPORTED, "the pattern cannot be compiled: %s", reinterpret_cast<const char *>(reason));
  }
  pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE); // where the system allows none, it is interpreted
  made->match = pcre2_match_data_create_from_pattern(made->code, nullptr);
  if (!made->match)
    throw std::bad_alloc();
  Pattern pattern;
  pattern.compiled = made;
  return pattern;
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.sought = std::move(text);
  return pattern;
}

std::string_view Pattern::prepare(std::string_view text, std::string &room) const {
  bool isCopied = false;
  for (size_t at = 0; compiled && at < text.size();) {
    const size_t begin = at;
    if (static_cast<unsigned char>(text[at]) < 0xE0) { // no newer one is that short
      ++at;
      continue;
    }
    const char32_t instead = olderCharacter(nextCharacter(text, at));
    if (!instead)
      continue;
    if (!isCopied)
      room.assign(text);
    isCopied = true;
    std::string bytes;
    append(bytes, instead);
    room.replace(begin, at - begin, bytes);
  }
  return isCopied ? std::string_view(room) : text;
}

Result<bool> Pattern::find(std::string_view text, size_t from, size_t &begin, size_t &end) const {
  if (!compiled) {
    begin = sought.empty() ? std::string_view::npos : text.find(sought, from);
    end = begin + sought.size();
    return begin != std::string_view::npos;
  }
  const int found = pcre2_match(compiled->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK, compiled->match, nullptr);
  if (found == PCRE2_ERROR_NOMATCH)
    return false;
  if (found < 0)
    return failure(MEBP_UNSUPPORTED,
                   "a pattern of the tokenizer takes more than its limit on this text; give shorter texts");
  const size_t *places = pcre2_get_ovector_pointer(compiled->match);
  begin = places[0];
  end = places[1];
  return true;
}

} // namespace mebp::text
