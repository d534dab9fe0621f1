// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/added_tokens.h"

#include <algorithm>

#include "runtime/text/unicode/properties.h"
#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

// The longest one that `text` begins with: the range of those that begin alike narrows by a byte.
template <typename Sorted> const typename Sorted::value_type *findLongest(const Sorted &sorted, std::string_view text) {
  const typename Sorted::value_type *longest = nullptr;
  auto begin = sorted.begin(), end = sorted.end();
  for (size_t length = 0; begin < end; ++length) {
    if (begin->first.size() == length) {
      if (length)
        longest = &*begin;
      if (++begin == end)
        break;
    }
    if (length >= text.size())
      break;
    const auto byte = static_cast<unsigned char>(text[length]);
    const auto at = [&](const auto &entry) { return static_cast<unsigned char>(entry.first[length]); };
    begin = std::partition_point(begin, end, [&](const auto &entry) { return at(entry) < byte; });
    end = std::partition_point(begin, end, [&](const auto &entry) { return at(entry) == byte; });
  }
  return longest;
}

bool endsInWord(std::string_view text) {
  if (text.empty())
    return false;
  size_t at = previousCharacter(text, text.size());
  return isWord(nextCharacter(text, at));
}

bool beginsInWord(std::string_view text) {
  size_t at = 0;
  return !text.empty() && isWord(nextCharacter(text, at));
}

size_t spacesBefore(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t before = previousCharacter(text, begin);
    size_t at = before;
    if (!isSpace(nextCharacter(text, at)))
      break;
    begin = before;
  }
  return begin;
}

size_t spacesAfter(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size(); end = at)
    if (!isSpace(nextCharacter(text, at)))
      break;
  return end;
}

} // namespace

Status AddedTokens::add(const Json &entry, uint64_t id, const char *of) {
  Fields fields(entry, of);
  AddedToken token;
  token.content = fields.text("content", "");
  token.singleWord = fields.flag("single_word", false);
  token.stripsLeft = fields.flag("lstrip", false);
  token.stripsRight = fields.flag("rstrip", false);
  token.isSpecial = fields.flag("special", false);
  token.isNormalized = fields.flag("normalized", !token.isSpecial);
  fields.whole("id", 0);
  fields.text("__type", "");
  if (Status status = fields.end(); !status.ok())
    return status;
  constexpr uint64_t largest = 1 << 24;
  if (token.content.empty() || id >= largest)
    return failure(MEBP_CORRUPT, "%s: a token has no text or an id beyond %llu; save the tokenizer again", of,
                   static_cast<unsigned long long>(largest));
  token.id = static_cast<uint32_t>(id);
  if (const auto known = byContent.find(token.content); known != byContent.end())
    byId.erase(known->second);
  byContent[token.content] = token.id;
  byId[token.id] = std::move(token);
  return Status();
}

Status AddedTokens::read(const Json &list) {
  if (!list.is_array() && !list.is_null())
    return failure(MEBP_CORRUPT, "added_tokens is not a list; save the tokenizer again");
  for (const Json &entry : list) {
    const Json *id = entry.is_object() && entry.contains("id") ? &entry["id"] : nullptr;
    if (!id || !id->is_number_unsigned())
      return failure(MEBP_CORRUPT, "added_tokens: a token has no id; save the tokenizer again");
    if (Status status = add(entry, id->get<uint64_t>(), "added_tokens"); !status.ok())
      return status;
  }
  return Status();
}

Status AddedTokens::addNamed(const std::string &content, const Vocabulary &vocabulary) {
  if (content.empty() || byContent.count(content))
    return Status();
  uint64_t id = vocabulary.find(content);
  if (id == Vocabulary::none)
    id = std::max(vocabulary.count(), size());
  return add({{"content", content}, {"special", true}, {"normalized", false}}, id, "tokenizer_config.json");
}

Status AddedTokens::readSettings(const Json &settings, const Vocabulary &vocabulary) {
  if (!settings.is_object())
    return failure(MEBP_CORRUPT, "is not a JSON object; save the tokenizer again");
  if (const auto stated = settings.find("added_tokens_decoder"); stated != settings.end() && stated->is_object()) {
    std::map<uint64_t, const Json *> sorted;
    for (const auto &entry : stated->items()) {
      const std::string &digits = entry.key();
      if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
        return failure(MEBP_CORRUPT, "added_tokens_decoder has the id '%s'; save the tokenizer again", digits.c_str());
      sorted[std::stoul(digits)] = &entry.value();
    }
    for (const auto &[id, entry] : sorted) {
      if (!entry->is_object() || !entry->contains("content") || !(*entry)["content"].is_string())
        return failure(MEBP_CORRUPT, "added_tokens_decoder: a token has no text; save the tokenizer again");
      const std::string &content = *(*entry)["content"].get_ptr<const std::string *>();
      const auto known = byContent.find(content);
      uint64_t own = known != byContent.end() ? known->second : vocabulary.find(content);
      if (own == Vocabulary::none)
        own = std::max(vocabulary.count(), size());
      if (own != id)
        return failure(MEBP_CORRUPT,
                       "gives %s the id %llu, and by tokenizer.json it has %llu; save the tokenizer again",
                       content.c_str(), static_cast<unsigned long long>(id), static_cast<unsigned long long>(own));
      if (Status status = add(*entry, id, "added_tokens_decoder"); !status.ok())
        return status;
    }
  }
  const auto nameOf = [](const Json &value) -> std::string {
    if (value.is_string())
      return value.get<std::string>();
    const bool isToken = value.is_object() && value.contains("content") && value["content"].is_string();
    return isToken ? value["content"].get<std::string>() : std::string();
  };
  for (const char *key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (const auto entry = settings.find(key); entry != settings.end())
      if (Status status = addNamed(nameOf(*entry), vocabulary); !status.ok())
        return status;
  for (const char *key : {"additional_special_tokens", "extra_special_tokens"})
    if (const auto entry = settings.find(key); entry != settings.end() && entry->is_structured())
      for (const Json &each : *entry)
        if (Status status = addNamed(nameOf(each), vocabulary); !status.ok())
          return status;
  return Status();
}

Status AddedTokens::complete(const Normalizer &normalizer) {
  for (auto &entry : byId) {
    AddedToken &token = entry.second;
    std::string sought = token.content;
    if (token.isNormalized) {
      TracedText text = TracedText::of(sought, 0, false);
      if (Status status = normalizer(text); !status.ok())
        return status;
      sought = std::move(text.text);
    }
    token.shown = sought;
    (token.isNormalized ? normalized : plain).push_back({sought, &token});
  }
  for (Sorted *sorted : {&plain, &normalized}) {
    std::stable_sort(sorted->begin(), sorted->end(),
                     [](const auto &left, const auto &right) { return left.first < right.first; });
    const auto same = [](const auto &left, const auto &right) { return left.first == right.first; };
    sorted->erase(std::unique(sorted->begin(), sorted->end(), same), sorted->end());
  }
  return Status();
}

const AddedToken *AddedTokens::find(uint32_t id) const {
  const auto entry = byId.find(id);
  return entry == byId.end() ? nullptr : &entry->second;
}

bool AddedTokens::isLeftOut(const AddedToken &token) const {
  const AddedToken *named = find(token.shown);
  return named && named->isSpecial;
}

const AddedToken *AddedTokens::find(std::string_view content) const {
  const auto entry = byContent.find(content);
  return entry == byContent.end() ? nullptr : find(entry->second);
}

std::vector<Segment> AddedTokens::cut(std::string_view text, bool isNormalized) const {
  const Sorted &sorted = isNormalized ? normalized : plain;
  bool isBeginning[256] = {};
  for (const auto &entry : sorted)
    if (!entry.first.empty())
      isBeginning[static_cast<unsigned char>(entry.first[0])] = true;
  std::vector<Segment> segments;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto *match =
        isBeginning[static_cast<unsigned char>(text[at])] ? findLongest(sorted, text.substr(at)) : nullptr;
    if (!match) {
      ++at;
      continue;
    }
    const AddedToken &token = *match->second;
    size_t begin = at, end = at + match->first.size();
    at = end;
    if (token.singleWord && (endsInWord(text.substr(0, begin)) || beginsInWord(text.substr(end))))
      continue;
    if (token.stripsLeft)
      begin = std::max(done, spacesBefore(text.substr(0, begin)));
    if (token.stripsRight)
      end += spacesAfter(text.substr(end));
    if (done < begin)
      segments.push_back({done, begin, nullptr});
    segments.push_back({begin, end, &token});
    done = end;
  }
  if (done < text.size())
    segments.push_back({done, text.size(), nullptr});
  return segments;
}

} // namespace mebp::text
