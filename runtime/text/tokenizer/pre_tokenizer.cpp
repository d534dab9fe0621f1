// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/pre_tokenizer.h"

#include "runtime/text/tokenizer/byte_characters.h"
#include "runtime/text/tokenizer/metaspace.h"
#include "runtime/text/tokenizer/sequence.h"
#include "runtime/text/tokenizer/split.h"
#include "runtime/text/unicode/properties.h"

namespace mebp::text {

namespace {

// Words with the space before them, as GPT-2 has them.
constexpr const char *gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool isNeither(char32_t character) { return !isWord(character) && !isSpace(character); }

// Each piece becomes what `change` puts.
template <typename Change> void rewrite(Pieces &pieces, const Change &change) {
  Rewriting out(pieces.text);
  for (Piece &piece : pieces.pieces) {
    const size_t begin = out.size();
    out.moveTo(piece.begin);
    change(piece, std::string_view(pieces.text.text).substr(piece.begin, piece.end - piece.begin), out);
    piece.begin = begin;
    piece.end = out.size();
  }
  pieces.text = out.take();
}

Result<PreTokenizer> makeByteLevel(Fields &fields) {
  const bool prefixes = fields.flag("add_prefix_space", true), splits = fields.flag("use_regex", true);
  fields.flag("trim_offsets", true); // of offsets alone
  Result<Pattern> pattern = Pattern::regex(gpt2);
  if (!pattern.ok())
    return pattern.status();
  return PreTokenizer([=, pattern = *pattern](Pieces &pieces) {
    if (prefixes)
      rewrite(pieces, [](const Piece &piece, std::string_view text, Rewriting &out) {
        if (text[0] != ' ')
          out.put(" ", out.origin(piece.begin));
        out.copy(piece.begin, piece.end);
      });
    if (splits)
      if (Status status = splitAt(pieces, pattern, Behavior::isolated, false); !status.ok())
        return status;
    rewrite(pieces, [](const Piece &, std::string_view text, Rewriting &out) { putByteCharacters(out, text); });
    return Status();
  });
}

PreTokenizer makeMetaspace(Fields &fields) {
  const Metaspace given = readMetaspace(fields);
  const Pattern pattern = Pattern::literal(given.replacement);
  return [=](Pieces &pieces) {
    rewrite(pieces, [&](const Piece &piece, std::string_view text, Rewriting &out) {
      const bool may = given.scheme == Metaspace::always || (given.scheme == Metaspace::first && piece.isFirst);
      if (may && text[0] != ' ' && text.substr(0, given.replacement.size()) != given.replacement)
        out.put(given.replacement, out.origin(piece.begin)); // what is put before stands for the first character
      size_t done = 0;
      for (size_t space; (space = text.find(' ', done)) != std::string_view::npos; done = space + 1) {
        out.copy(piece.begin + done, piece.begin + space);
        out.put(given.replacement, out.origin(piece.begin + space));
      }
      out.copy(piece.begin + done, piece.end);
    });
    return given.splits ? splitAt(pieces, pattern, Behavior::mergedWithNext, false) : Status();
  };
}

PreTokenizer makeSplit(Fields &fields) {
  Behavior behavior = Behavior::isolated;
  const bool isInverted = fields.flag("invert", false);
  if (const std::string name = fields.text("behavior", ""); !readBehavior(name, behavior))
    fields.refuse("behavior '" + name + "'");
  return [=, pattern = fields.pattern("pattern")](Pieces &pieces) {
    return splitAt(pieces, pattern, behavior, isInverted);
  };
}

PreTokenizer makeCharacterSplit(bool (*isMatch)(char32_t), Behavior behavior) {
  return [=](Pieces &pieces) {
    splitAt(pieces, isMatch, behavior);
    return Status();
  };
}

Result<PreTokenizer> makeSequence(Fields &fields) {
  std::vector<PreTokenizer> parts;
  for (const Json &entry : fields.list("pretokenizers")) {
    Result<PreTokenizer> part = makePreTokenizer(entry);
    if (!part.ok())
      return part.status();
    parts.push_back(std::move(*part));
  }
  return PreTokenizer([parts](Pieces &pieces) { return runInTurn(parts, pieces); });
}

} // namespace

Result<PreTokenizer> makePreTokenizer(const Json &given) {
  if (given.is_null())
    return PreTokenizer([](Pieces &) { return Status(); });
  Fields fields(given, "pre_tokenizer");
  const std::string &type = fields.type();
  PreTokenizer made;
  if (type == "Sequence" || type == "ByteLevel") {
    Result<PreTokenizer> part = type == "Sequence" ? makeSequence(fields) : makeByteLevel(fields);
    if (!part.ok())
      return part;
    made = std::move(*part);
  } else if (type == "Metaspace") {
    made = makeMetaspace(fields);
  } else if (type == "Split") {
    made = makeSplit(fields);
  } else if (type == "Digits") {
    made = makeCharacterSplit(isNumber,
                              fields.flag("individual_digits", false) ? Behavior::isolated : Behavior::contiguous);
  } else if (type == "Punctuation") {
    Behavior behavior = Behavior::isolated;
    if (const std::string name = fields.text("behavior", "isolated"); !readBehavior(name, behavior))
      fields.refuse("behavior '" + name + "'");
    made = makeCharacterSplit(isPunctuation, behavior);
  } else if (type == "WhitespaceSplit") {
    made = makeCharacterSplit(isSpace, Behavior::removed);
  } else if (type == "BertPreTokenizer") {
    made = [](Pieces &pieces) {
      splitAt(pieces, isSpace, Behavior::removed);
      splitAt(pieces, isPunctuation, Behavior::isolated);
      return Status();
    };
  } else if (type == "Whitespace") {
    made = [](Pieces &pieces) {
      splitAt(pieces, isSpace, Behavior::removed);
      splitAt(pieces, isNeither, Behavior::contiguous);
      return Status();
    };
  } else if (type == "CharDelimiterSplit") {
    made = [pattern = Pattern::literal(fields.character("delimiter", ""))](Pieces &pieces) {
      return splitAt(pieces, pattern, Behavior::removed, false);
    };
  }
  if (!made)
    return fields.refuseType();
  if (Status status = fields.end(); !status.ok())
    return status;
  return made;
}

} // namespace mebp::text
