// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/normalizer.h"

#include <utility>
#include <vector>

#include "runtime/text/tokenizer/byte_characters.h"
#include "runtime/text/unicode/properties.h"

namespace mebp::text {

namespace {

// `each` is told each character and what it makes goes to `out`.
template <typename Each> void mapCharacters(std::string &text, const Each &each) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();)
    each(nextCharacter(text, at), out);
  text = std::move(out);
}

Status toForm(std::string &text, Form form) {
  if (normalize(text, form))
    return Status();
  return failure(MEBP_OUT_OF_MEMORY, "no memory to normalize %zu bytes; give shorter texts", text.size());
}

void lower(std::string &text) {
  mapCharacters(text, [](char32_t character, std::string &out) { appendLower(out, character); });
}

void strip(std::string &text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  for (size_t next = 0; left && next < text.size();) {
    if (!isSpace(nextCharacter(text, next)))
      break;
    begin = next;
  }
  while (right && end > begin) {
    const size_t before = previousCharacter(text, end);
    size_t at = before;
    if (!isSpace(nextCharacter(text, at)))
      break;
    end = before;
  }
  text = text.substr(begin, end - begin);
}

void clean(std::string &text) {
  mapCharacters(text, [](char32_t character, std::string &out) {
    const bool isBreak = character == '\t' || character == '\n' || character == '\r';
    if (!isBreak && (!character || character == 0xFFFD || isOther(character)))
      return;
    append(out, isBreak || isSpace(character) ? ' ' : character);
  });
}

void spaceHan(std::string &text) {
  mapCharacters(text, [](char32_t character, std::string &out) {
    const bool spaced = isHan(character);
    if (spaced)
      out += ' ';
    append(out, character);
    if (spaced)
      out += ' ';
  });
}

Normalizer makeBert(Fields &fields) {
  const bool cleans = fields.flag("clean_text", true), han = fields.flag("handle_chinese_chars", true);
  const bool lowers = fields.flag("lowercase", true);
  const bool strips = fields.flag("strip_accents", lowers);
  return [=](std::string &text) {
    if (cleans)
      clean(text);
    if (han)
      spaceHan(text);
    if (strips) {
      if (Status status = toForm(text, Form::nfd); !status.ok())
        return status;
      mapCharacters(text, [](char32_t character, std::string &out) {
        if (!isMark(character))
          append(out, character);
      });
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
  return Normalizer([parts](std::string &text) {
    for (const Normalizer &part : parts)
      if (Status status = part(text); !status.ok())
        return status;
    return Status();
  });
}

} // namespace

Status replaceAll(std::string &text, const Pattern &pattern, const std::string &content) {
  std::string out, room;
  size_t done = 0, begin = 0, end = 0;
  const std::string_view subject = pattern.prepare(text, room);
  for (size_t from = 0; from <= text.size();) {
    Result<bool> found = pattern.find(subject, from, begin, end);
    if (!found.ok())
      return found.status();
    if (!*found)
      break;
    out.append(text, done, begin - done);
    out += content;
    done = end;
    from = end;
    if (begin == end) // of nothing, so the next one begins behind the character that follows
      from = end < text.size() ? end + characterLength(static_cast<unsigned char>(text[end])) : end + 1;
  }
  if (done || !out.empty()) {
    out.append(text, done);
    text = std::move(out);
  }
  return Status();
}

Result<Normalizer> makeNormalizer(const Json &given) {
  if (given.is_null())
    return Normalizer([](std::string &) { return Status(); });
  Fields fields(given, "normalizer");
  const std::string &type = fields.type();
  Normalizer made;
  static const std::pair<const char *, Form> forms[] = {
      {"NFC", Form::nfc}, {"NFD", Form::nfd}, {"NFKC", Form::nfkc}, {"NFKD", Form::nfkd}};
  for (const auto &[name, form] : forms)
    if (type == name)
      made = [form = form](std::string &text) { return toForm(text, form); };
  if (type == "Sequence") {
    Result<Normalizer> sequence = makeSequence(fields);
    if (!sequence.ok())
      return sequence;
    made = std::move(*sequence);
  } else if (type == "Lowercase") {
    made = [](std::string &text) {
      lower(text);
      return Status();
    };
  } else if (type == "Strip") {
    const bool left = fields.flag("strip_left", true), right = fields.flag("strip_right", true);
    made = [=](std::string &text) {
      strip(text, left, right);
      return Status();
    };
  } else if (type == "StripAccents") {
    made = [](std::string &text) {
      mapCharacters(text, [](char32_t character, std::string &out) {
        if (!isAnyMark(character))
          append(out, character);
      });
      return Status();
    };
  } else if (type == "Prepend") {
    made = [what = fields.text("prepend", "")](std::string &text) {
      if (!text.empty())
        text.insert(0, what);
      return Status();
    };
  } else if (type == "Replace") {
    made = [pattern = fields.pattern("pattern"), content = fields.text("content", "")](std::string &text) {
      return replaceAll(text, pattern, content);
    };
  } else if (type == "ByteLevel") {
    made = [](std::string &text) {
      std::string out;
      appendByteCharacters(out, text);
      text = std::move(out);
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
