// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/normalizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/text/tokenizer/byte_characters.h"
#include "runtime/text/tokenizer/sequence.h"
#include "runtime/text/unicode/normal_form.h"
#include "runtime/text/unicode/properties.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

// `each` is told each character, and puts what becomes of it.
template <typename Each> void mapCharacters(TracedText &text, const Each &each) {
  Rewriting out(text);
  for (size_t at = 0; at < text.text.size();)
    each(nextCharacter(text.text, at), out);
  text = out.take();
}

template <typename Stays> void keepOnly(TracedText &text, const Stays &stays) {
  mapCharacters(text, [&](char32_t character, Rewriting &out) {
    if (stays(character))
      out.put(character);
    else
      out.leaveOut(1);
  });
}

// What is put before a text stands for its first character.
void prepend(TracedText &text, std::string_view what) {
  Rewriting out(text);
  out.put(what, out.origin(0));
  out.copy(0, text.text.size());
  text = out.take();
}

void toForm(TracedText &text, Form form) {
  if (std::all_of(text.text.begin(), text.text.end(), [](char byte) { return static_cast<signed char>(byte) >= 0; }))
    return;
  Rewriting out(text);
  normalize(text.text, form, [&](char32_t character, int change) { out.put(character, change); });
  text = out.take();
}

void lower(TracedText &text) {
  mapCharacters(text, [](char32_t character, Rewriting &out) {
    const auto [first, second] = toLower(character);
    out.put(first);
    if (second)
      out.put(second, 1);
  });
}

void strip(TracedText &text, bool left, bool right) {
  const std::string &all = text.text;
  size_t begin = 0, end = all.size();
  for (size_t next = 0; left && next < all.size();) {
    if (!isSpace(nextCharacter(all, next)))
      break;
    begin = next;
  }
  while (right && end > begin) {
    const size_t before = previousCharacter(all, end);
    size_t at = before;
    if (!isSpace(nextCharacter(all, at)))
      break;
    end = before;
  }
  Rewriting out(text);
  out.copy(begin, end);
  text = out.take();
}

void clean(TracedText &text) {
  const auto isBreak = [](char32_t character) { return character == '\t' || character == '\n' || character == '\r'; };
  keepOnly(text, [&](char32_t character) {
    return isBreak(character) || !(!character || character == 0xFFFD || isOther(character));
  });
  mapCharacters(text, [&](char32_t character, Rewriting &out) {
    out.put(isBreak(character) || isSpace(character) ? ' ' : character);
  });
}

void spaceHan(TracedText &text) {
  mapCharacters(text, [](char32_t character, Rewriting &out) {
    if (!isHan(character))
      return out.put(character);
    out.put(' ');
    out.put(character, 1);
    out.put(' ', 1);
  });
}

Normalizer makeBert(Fields &fields) {
  const bool cleans = fields.flag("clean_text", true), han = fields.flag("handle_chinese_chars", true);
  const bool lowers = fields.flag("lowercase", true);
  const bool strips = fields.flag("strip_accents", lowers);
  return [=](TracedText &text) {
    if (cleans)
      clean(text);
    if (han)
      spaceHan(text);
    if (strips) {
      toForm(text, Form::nfd);
      keepOnly(text, [](char32_t character) { return !isMark(character); });
    }
    if (lowers)
      lower(text);
    return Status();
  };
}

Result<Normalizer> makeSequence(Fields &fields) {
  std::vector<Normalizer> parts;
  for (const Json &entry : fields.list("normalizers")) {
    Result<Normalizer> part = makeNormalizer(entry);
    if (!part.ok())
      return part.status();
    parts.push_back(std::move(*part));
  }
  return Normalizer([parts](TracedText &text) { return runInTurn(parts, text); });
}

} // namespace

Status replaceAll(TracedText &text, const Pattern &pattern, const std::string &content) {
  std::string room;
  const size_t size = text.text.size();
  size_t done = 0, begin = 0, end = 0;
  bool isChanged = false;
  Rewriting out(text);
  const std::string_view subject = pattern.prepare(text.text, room);
  for (size_t from = 0; from <= size;) {
    Result<bool> found = pattern.find(subject, from, begin, end);
    if (!found.ok())
      return found.status();
    if (!*found)
      break;
    isChanged = true;
    out.copy(done, begin);
    out.put(content, end > 0 ? out.origin(end - 1) : Span{0, 0});
    done = end;
    from = end;
    if (begin == end) // of nothing, so the next one begins behind the character that follows
      from = end < size ? end + characterLength(static_cast<unsigned char>(text.text[end])) : end + 1;
  }
  if (isChanged) {
    out.copy(done, size);
    text = out.take();
  }
  return Status();
}

Result<Normalizer> makeNormalizer(const Json &given) {
  if (given.is_null())
    return Normalizer([](TracedText &) { return Status(); });
  Fields fields(given, "normalizer");
  const std::string &type = fields.type();
  Normalizer made;
  static const std::pair<const char *, Form> forms[] = {
      {"NFC", Form::nfc}, {"NFD", Form::nfd}, {"NFKC", Form::nfkc}, {"NFKD", Form::nfkd}};
  for (const auto &[name, form] : forms)
    if (type == name)
      made = [form = form](TracedText &text) {
        toForm(text, form);
        return Status();
      };
  if (type == "Sequence") {
    Result<Normalizer> sequence = makeSequence(fields);
    if (!sequence.ok())
      return sequence;
    made = std::move(*sequence);
  } else if (type == "Lowercase") {
    made = [](TracedText &text) {
      lower(text);
      return Status();
    };
  } else if (type == "Strip") {
    const bool left = fields.flag("strip_left", true), right = fields.flag("strip_right", true);
    made = [=](TracedText &text) {
      strip(text, left, right);
      return Status();
    };
  } else if (type == "StripAccents") {
    made = [](TracedText &text) {
      keepOnly(text, [](char32_t character) { return !isAnyMark(character); });
      return Status();
    };
  } else if (type == "Prepend") {
    made = [what = fields.text("prepend", "")](TracedText &text) {
      if (!text.text.empty())
        prepend(text, what);
      return Status();
    };
  } else if (type == "Replace") {
    made = [pattern = fields.pattern("pattern"), content = fields.text("content", "")](TracedText &text) {
      return replaceAll(text, pattern, content);
    };
  } else if (type == "ByteLevel") {
    made = [](TracedText &text) {
      Rewriting out(text);
      putByteCharacters(out, text.text);
      text = out.take();
      return Status();
    };
  } else if (type == "BertNormalizer") {
    made = makeBert(fields);
  } else if (type == "Precompiled") {
    Result<Normalizer> table = makePrecompiled(fields.text("precompiled_charsmap", ""));
    if (!table.ok())
      return table;
    made = std::move(*table);
  }
  if (!made)
    return fields.refuseType();
  if (Status status = fields.end(); !status.ok())
    return status;
  return made;
}

} // namespace mebp::text
