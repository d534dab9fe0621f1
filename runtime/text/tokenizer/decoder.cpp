// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/decoder.h"

#include <cstdlib>
#include <unordered_map>

#include "runtime/text/tokenizer/byte_characters.h"
#include "runtime/text/tokenizer/byte_tokens.h"
#include "runtime/text/tokenizer/metaspace.h"
#include "runtime/text/tokenizer/normalizer.h"
#include "runtime/text/tokenizer/sequence.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

using Texts = std::vector<std::string>;

std::string joined(const Texts &texts) {
  std::string whole;
  for (const std::string &text : texts)
    whole += text;
  return whole;
}

void replaceEach(std::string &text, std::string_view what, std::string_view by) {
  for (size_t at = 0; !what.empty() && (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

// A token with characters of no byte stands for itself.
Status decodeBytes(Texts &texts) {
  static const std::unordered_map<char32_t, char> bytes = [] {
    std::unordered_map<char32_t, char> made;
    for (size_t byte = 0; byte < 256; ++byte)
      made[byteCharacters[byte]] = static_cast<char>(byte);
    return made;
  }();
  std::string whole, part;
  for (const std::string &text : texts) {
    part.clear();
    bool isBytes = true;
    for (size_t at = 0; at < text.size() && isBytes;) {
      const auto byte = bytes.find(nextCharacter(text, at));
      isBytes = byte != bytes.end();
      if (isBytes)
        part += byte->second;
    }
    whole += isBytes ? part : text;
  }
  texts = {replaceInvalid(whole)};
  return Status();
}

// Bytes one after another are text, or else each of them is U+FFFD.
Status decodeByteTokens(Texts &texts) {
  Texts out;
  std::string run;
  const auto flush = [&] {
    if (findInvalid(run) == std::string::npos)
      out.push_back(run);
    else
      out.insert(out.end(), run.size(), "\xEF\xBF\xBD");
    run.clear();
  };
  for (std::string &text : texts) {
    if (const int byte = byteOfToken(text); byte >= 0) {
      run += static_cast<char>(byte);
      continue;
    }
    if (!run.empty())
      flush();
    out.push_back(std::move(text));
  }
  if (!run.empty())
    flush();
  texts = std::move(out);
  return Status();
}

void stripEnds(std::string &text, const std::string &content, uint64_t start, uint64_t stop) {
  size_t begin = 0, end = text.size();
  for (uint64_t count = 0; count < start && text.compare(begin, content.size(), content) == 0; ++count)
    begin += content.size();
  for (uint64_t count = 0; count < stop && end >= begin + content.size() &&
                           text.compare(end - content.size(), content.size(), content) == 0;
       ++count)
    end -= content.size();
  text = text.substr(begin, end - begin);
}

void cleanUp(std::string &text) {
  static constexpr const char *pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                             {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto &pair : pairs)
    replaceEach(text, pair[0], pair[1]);
}

Result<Decoder> makeSequence(Fields &fields) {
  Decoder made;
  std::vector<std::function<Status(Texts &)>> parts;
  for (const Json &entry : fields.list("decoders")) {
    Result<Decoder> part = makeDecoder(entry);
    if (!part.ok())
      return part;
    made.joinsByteTokens |= part->joinsByteTokens;
    made.looksAhead |= part->looksAhead;
    parts.push_back(std::move(part->run));
  }
  made.run = [parts](Texts &texts) { return runInTurn(parts, texts); };
  return made;
}

std::function<Status(Texts &)> makeWordPiece(const std::string &prefix, bool cleans) {
  return [=](Texts &texts) {
    for (size_t index = 0; index < texts.size(); ++index) {
      std::string &text = texts[index];
      if (index && text.compare(0, prefix.size(), prefix) == 0)
        text.erase(0, prefix.size());
      else if (index)
        text.insert(0, " ");
      if (cleans)
        cleanUp(text);
    }
    return Status();
  };
}

std::function<Status(Texts &)> makeMetaspace(const Metaspace &given) {
  return [=](Texts &texts) {
    for (size_t index = 0; index < texts.size(); ++index) {
      const bool drops = index == 0 && given.scheme != Metaspace::never;
      replaceEach(texts[index], given.replacement, drops ? "" : " ");
    }
    return Status();
  };
}

} // namespace

Result<Decoder> makeDecoder(const Json &given) {
  if (given.is_null())
    return Decoder{[](Texts &texts) {
                     for (size_t index = 1; index < texts.size(); ++index)
                       texts[index].insert(0, " ");
                     return Status();
                   },
                   false, false};
  Fields fields(given, "decoder");
  const std::string &type = fields.type();
  Decoder made;
  if (type == "Sequence") {
    Result<Decoder> sequence = makeSequence(fields);
    if (!sequence.ok())
      return sequence;
    made = std::move(*sequence);
  } else if (type == "ByteLevel") {
    for (const char *of : {"add_prefix_space", "trim_offsets", "use_regex"}) // of its pre-tokenizer
      fields.flag(of, true);
    made.run = decodeBytes;
  } else if (type == "ByteFallback") {
    made.joinsByteTokens = true;
    made.run = decodeByteTokens;
  } else if (type == "Fuse") {
    made.run = [](Texts &texts) {
      texts = {joined(texts)};
      return Status();
    };
  } else if (type == "Strip") {
    const std::string content = fields.character("content", " ");
    const uint64_t start = fields.whole("start", 0), stop = fields.whole("stop", 0);
    made.run = [=](Texts &texts) {
      for (std::string &text : texts)
        stripEnds(text, content, start, stop);
      return Status();
    };
    made.looksAhead = stop > 0;
  } else if (type == "Replace") {
    made.run = [pattern = fields.pattern("pattern"), content = fields.text("content", "")](Texts &texts) {
      for (std::string &text : texts) {
        TracedText changed{std::move(text), false, {}};
        if (Status status = replaceAll(changed, pattern, content); !status.ok())
          return status;
        text = std::move(changed.text);
      }
      return Status();
    };
  } else if (type == "Metaspace") {
    made.run = makeMetaspace(readMetaspace(fields));
  } else if (type == "WordPiece") {
    const std::string prefix = fields.text("prefix", "##");
    made.run = makeWordPiece(prefix, fields.flag("cleanup", true));
    made.looksAhead = true;
  } else if (type == "BPEDecoder") {
    made.run = [suffix = fields.text("suffix", "</w>")](Texts &texts) {
      for (size_t index = 0; index < texts.size(); ++index)
        replaceEach(texts[index], suffix, index + 1 < texts.size() ? " " : "");
      return Status();
    };
  }
  if (!made.run)
    return fields.refuseType();
  if (Status status = fields.end(); !status.ok())
    return status;
  return made;
}

} // namespace mebp::text
