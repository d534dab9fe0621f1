// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/tokenizer.h"

#include "runtime/core/json.h"
#include "runtime/text/tokenizer/byte_characters.h"
#include "runtime/text/tokenizer/byte_tokens.h"
#include "runtime/text/unicode/properties.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

const Json &partOf(const Json &file, const char *key) {
  static const Json none;
  const auto entry = file.find(key);
  return entry == file.end() ? none : *entry;
}

} // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::read(std::string_view json, std::string_view settings) {
  if (json.size() > largestTokenizerFile)
    return failure(MEBP_UNSUPPORTED, "tokenizer.json: has %zu bytes, more than %llu; use a model with a smaller one",
                   json.size(), static_cast<unsigned long long>(largestTokenizerFile));
  Result<TokenizerFile> file = readTokenizerFile(json);
  if (!file.ok())
    return file.status().in("tokenizer.json");
  auto made = std::make_unique<Tokenizer>();
  made->file = std::move(*file);
  if (Status status = made->readParts(settings); !status.ok())
    return status;
  return made;
}

Status Tokenizer::readParts(std::string_view settings) {
  const Json &rest = file.rest;
  const auto inFile = [](const Status &status) { return status.in("tokenizer.json"); };
  for (const auto &entry : rest.items())
    if (entry.key() != "version" && entry.key() != "truncation" && entry.key() != "padding" &&
        entry.key() != "added_tokens" && entry.key() != "normalizer" && entry.key() != "pre_tokenizer" &&
        entry.key() != "post_processor" && entry.key() != "decoder" && entry.key() != "model")
      return inFile(failure(MEBP_UNSUPPORTED, "'%s' is not supported; save the tokenizer again", entry.key().c_str()));
  Result<Normalizer> first = makeNormalizer(partOf(rest, "normalizer"));
  if (!first.ok())
    return inFile(first.status());
  Result<PreTokenizer> second = makePreTokenizer(partOf(rest, "pre_tokenizer"));
  if (!second.ok())
    return inFile(second.status());
  Result<Decoder> last = makeDecoder(partOf(rest, "decoder"));
  if (!last.ok())
    return inFile(last.status());
  normalizer = std::move(*first);
  preTokenizer = std::move(*second);
  decoder = std::move(*last);
  if (Status status = readPostProcessor(partOf(rest, "post_processor"), around); !status.ok())
    return inFile(status);
  if (Status status = added.read(partOf(rest, "added_tokens")); !status.ok())
    return inFile(status);
  Result<std::unique_ptr<Model>> third = makeModel(file);
  if (!third.ok())
    return inFile(third.status());
  model = std::move(*third);
  file.rest = nullptr;
  if (!settings.empty())
    if (Status status = added.readSettings(parseJson(settings), file.vocabulary); !status.ok())
      return status.in("tokenizer_config.json");
  return inFile(added.complete(normalizer));
}

uint32_t Tokenizer::find(std::string_view token) const {
  const AddedToken *found = added.find(token);
  return found ? found->id : file.vocabulary.find(token);
}

Status Tokenizer::encode(std::string_view text, bool addsSpecialTokens, std::vector<int32_t> &out) {
  if (addsSpecialTokens)
    out.insert(out.end(), around.before.begin(), around.before.end());
  if (Status status = encodeText(text, out, nullptr); !status.ok())
    return status;
  if (addsSpecialTokens)
    out.insert(out.end(), around.after.begin(), around.after.end());
  return Status();
}

Result<std::vector<mebp_token>> Tokenizer::place(std::string_view text) {
  std::vector<int32_t> ids;
  std::vector<Span> spans;
  if (Status status = encodeText(text, ids, &spans); !status.ok())
    return status;
  std::vector<mebp_token> placed;
  placed.reserve(ids.size());
  for (size_t index = 0; index < ids.size(); ++index) {
    Span span = spans[index];
    // An added token's own spaces are those of the text around it that it takes in.
    const auto id = static_cast<uint32_t>(ids[index]);
    const std::string_view token =
        added.find(id) ? text.substr(span.begin, span.end - span.begin) : file.vocabulary.token(id);
    trim(text, token, index == 0, span);
    placed.push_back({ids[index], span.begin, span.end});
  }
  return placed;
}

Status Tokenizer::encodeText(std::string_view text, std::vector<int32_t> &ids, std::vector<Span> *spans) {
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    return failure(MEBP_INVALID_ARGUMENT, "the text has NUL at byte %zu; leave it out", at);
  if (const size_t at = findInvalid(text); at != std::string_view::npos)
    return failure(MEBP_INVALID_ARGUMENT, "the text is not UTF-8 at byte %zu; convert it first", at);
  const auto take = [&](const AddedToken &token, Span span) {
    ids.push_back(static_cast<int32_t>(token.id));
    if (spans)
      spans->push_back(span);
  };
  for (const Segment &segment : added.cut(text, false)) {
    if (segment.token) {
      take(*segment.token, {segment.begin, segment.end});
      continue;
    }
    const std::string_view given = text.substr(segment.begin, segment.end - segment.begin);
    TracedText normalized = TracedText::of(given, segment.begin, spans != nullptr);
    if (Status status = normalizer(normalized); !status.ok())
      return status;
    for (const Segment &part : added.cut(normalized.text, true)) {
      if (part.token)
        take(*part.token, spans ? normalized.origin(part.begin, part.end) : Span{});
      else if (Status status =
                   encodePart(normalized.part(part.begin, part.end), segment.begin == 0 && part.begin == 0, ids, spans);
               !status.ok())
        return status;
    }
  }
  return Status();
}

Status Tokenizer::encodePart(TracedText part, bool isFirst, std::vector<int32_t> &ids, std::vector<Span> *spans) {
  const size_t size = part.text.size();
  Pieces pieces{std::move(part), {{0, size, isFirst}}};
  if (Status status = preTokenizer(pieces); !status.ok())
    return status;
  for (const Piece &piece : pieces.pieces) {
    const std::string_view text = std::string_view(pieces.text.text).substr(piece.begin, piece.end - piece.begin);
    const size_t before = spans ? spans->size() : 0;
    if (Status status = model->encode(text, ids, spans); !status.ok())
      return status;
    for (size_t index = before; spans && index < spans->size(); ++index)
      // Marks of parts of words and bytes that stand for a whole token may count more bytes than there are.
      if (Span &span = (*spans)[index]; span.begin < span.end && span.end <= text.size())
        span = pieces.text.origin(piece.begin + span.begin, piece.begin + span.end);
  }
  return Status();
}

// In characters of the text, one for each space of the token, as `tokenizers` does it.
void Tokenizer::trim(std::string_view text, std::string_view token, bool isFirst, Span &span) const {
  if (around.trims.empty())
    return;
  const auto isSpaceOf = [](char32_t character) { return character == byteCharacters[' '] || isSpace(character); };
  size_t leading = 0, trailing = 0;
  for (size_t at = 0; at < token.size() && isSpaceOf(nextCharacter(token, at));)
    ++leading;
  for (size_t end = token.size(); end > 0; ++trailing) {
    end = previousCharacter(token, end);
    size_t at = end;
    if (!isSpaceOf(nextCharacter(token, at)))
      break;
  }
  for (const bool keepsFirst : around.trims) {
    // One space may be what the pre-tokenizer has put before the text.
    if (!(keepsFirst && leading == 1 && (isFirst || span.begin == 0)))
      for (size_t left = leading; left > 0 && span.begin < span.end; --left)
        nextCharacter(text, span.begin);
    for (size_t left = trailing; left > 0 && span.end > span.begin; --left)
      span.end = previousCharacter(text, span.end);
  }
}

std::string Tokenizer::textOfToken(uint32_t id) const {
  const AddedToken *token = added.find(id);
  return token ? token->shown : std::string(file.vocabulary.token(id));
}

Status Tokenizer::decode(const int32_t *ids, size_t count, bool skipsSpecialTokens, std::string &out) const {
  std::vector<std::string> texts;
  for (size_t index = 0; index < count; ++index) {
    const auto id = static_cast<uint32_t>(ids[index]);
    const AddedToken *token = added.find(id);
    if ((!token && !file.vocabulary.has(id)) || (token && skipsSpecialTokens && added.isLeftOut(*token)))
      continue;
    texts.push_back(textOfToken(id));
  }
  if (Status status = decoder.run(texts); !status.ok())
    return status;
  out.clear();
  for (const std::string &text : texts)
    out += text;
  return Status();
}

bool Tokenizer::isOpen(int32_t id) const {
  return decoder.joinsByteTokens && byteOfToken(textOfToken(static_cast<uint32_t>(id))) >= 0;
}

} // namespace mebp::text
