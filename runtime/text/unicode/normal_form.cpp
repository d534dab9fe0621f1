// SPDX-License-Identifier: Apache-2.0
//
// 1. Each character becomes what it is composed of: the first of these stands for it, the others are added.
// 2. Marks behind a character are sorted by their class, those of one class as they came.
// 3. Where it composes: a mark that no other keeps from its character joins it. What the two stand for is the sum.
// Classes, decompositions and pairs are utf8proc's; where those of `tokenizers` are of an older Unicode,
// differences.h has them.
#include "runtime/text/unicode/normal_form.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <utf8proc.h>

#include "runtime/text/unicode/differences.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

int classOf(char32_t character) {
  return character < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->combining_class;
}

// What two characters compose to; 0: nothing.
char32_t compose(char32_t first, char32_t second) {
  if (second < 0x300)
    return 0;
  utf8proc_int32_t pair[] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  constexpr auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

class Normalizing {
public:
  Normalizing(Form form, const PutCharacter &put)
      : put(put), form(form), composes(form == Form::nfc || form == Form::nfkc),
        isCompatible(form == Form::nfkc || form == Form::nfkd) {}

  void take(char32_t character) {
    if (character < 0x80 || staysWhole(character))
      return takePart(character, 0);
    utf8proc_int32_t parts[32];
    const int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (isCompatible ? UTF8PROC_COMPAT : 0);
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts, std::size(parts),
                                static_cast<utf8proc_option_t>(options), &boundary);
    if (count < 1 || count > static_cast<utf8proc_ssize_t>(std::size(parts)))
      return takePart(character, 0);
    for (utf8proc_ssize_t index = 0; index < count; ++index)
      takePart(static_cast<char32_t>(parts[index]), index ? 1 : 0);
  }

  void finish() {
    flushSorted();
    flushComposed();
  }

private:
  struct Part {
    char32_t character;
    int change, combining;
  };

  bool staysWhole(char32_t character) const {
    return differences::find(differences::undecomposed, character) &&
           (isCompatible || (form == Form::nfd && character == 0x11938));
  }

  void takePart(char32_t character, int change) {
    const int combining = classOf(character);
    if (combining == 0)
      flushSorted();
    waiting.push_back({character, change, combining});
  }

  void flushSorted() {
    if (waiting.size() > 2)
      std::stable_sort(waiting.begin(), waiting.end(),
                       [](const Part &left, const Part &right) { return left.combining < right.combining; });
    else if (waiting.size() == 2 && waiting[1].combining < waiting[0].combining)
      std::swap(waiting[0], waiting[1]);
    for (const Part &part : waiting)
      composes ? takeSorted(part) : put(part.character, part.change);
    waiting.clear();
  }

  void takeSorted(const Part &part) {
    if (!hasBase) {
      if (part.combining != 0)
        return put(part.character, part.change);
      base = part;
      hasBase = true;
      return;
    }
    const bool isFree = behind.empty() || behind.back().combining < part.combining;
    if (const char32_t whole = isFree ? compose(base.character, part.character) : 0) {
      base = {whole, base.change + part.change - 1, 0};
      return;
    }
    if (part.combining != 0)
      return behind.push_back(part);
    flushComposed();
    base = part;
    hasBase = true;
  }

  void flushComposed() {
    if (hasBase)
      put(base.character, base.change);
    for (const Part &part : behind)
      put(part.character, part.change);
    behind.clear();
    hasBase = false;
  }

  const PutCharacter &put;
  Form form;
  bool composes, isCompatible;
  std::vector<Part> waiting; // a character and the marks behind it
  Part base = {};
  bool hasBase = false;
  std::vector<Part> behind; // marks that did not join it
};

} // namespace

void normalize(std::string_view text, Form form, const PutCharacter &put) {
  Normalizing normalizing(form, put);
  for (size_t at = 0; at < text.size();)
    normalizing.take(nextCharacter(text, at));
  normalizing.finish();
}

} // namespace mebp::text
