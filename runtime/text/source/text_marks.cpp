// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/source/text_marks.h"

#include <algorithm>

#include "runtime/core/files.h"
#include "runtime/core/json.h"

namespace mebp::text {

namespace {

using Json = nlohmann::json;

// An object in a file of the folder; an empty one where there is no such file.
Result<Json> readSettings(const std::string &path) {
  constexpr uint64_t largest = uint64_t{16} << 20;
  Result<std::string> text = readFile(path, largest);
  if (!text.ok())
    return text.status().code() == MEBP_NOT_FOUND ? Result<Json>(Json::object()) : text.status();
  Json settings = parseJson(*text);
  if (!settings.is_object())
    return failure(MEBP_CORRUPT, "%s: is not a JSON object; export the model again", path.c_str());
  return settings;
}

std::string nameOf(const Json &settings, const char *key) {
  const auto entry = settings.find(key);
  if (entry == settings.end())
    return "";
  const Json *value = &*entry;
  if (value->is_object() && value->contains("content"))
    value = &(*value)["content"];
  return value->is_string() ? value->get<std::string>() : "";
}

// Ids with which the model ends, those of its tokenizer first.
Result<std::vector<int32_t>> readEnds(const std::string &folder, const Tokenizer &tokenizer) {
  std::vector<int32_t> ends;
  const auto add = [&](int32_t id) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end())
      ends.push_back(id);
  };
  std::string named;
  for (const char *file : {"/tokenizer_config.json", "/special_tokens_map.json"}) {
    Result<Json> settings = readSettings(folder + file);
    if (!settings.ok())
      return settings.status();
    if (!settings->contains("eos_token"))
      continue;
    named = nameOf(*settings, "eos_token");
    break;
  }
  if (const uint32_t id = named.empty() ? Vocabulary::none : tokenizer.find(named); id != Vocabulary::none)
    add(static_cast<int32_t>(id));
  for (const char *file : {"/generation_config.json", "/config.json"}) {
    Result<Json> settings = readSettings(folder + file);
    if (!settings.ok())
      return settings.status();
    const Json stated = settings->value("eos_token_id", Json());
    for (const Json &id : stated.is_array() ? stated : Json::array({stated}))
      if (id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX)
        add(static_cast<int32_t>(id.get<uint64_t>()));
      else if (!id.is_null())
        return failure(MEBP_CORRUPT, "%s%s: eos_token_id is not a number or a list of them; correct it", folder.c_str(),
                       file);
  }
  return ends;
}

} // namespace

Result<TextMarks> readTextMarks(const std::string &folder, const Tokenizer &tokenizer) {
  Result<std::vector<int32_t>> ends = readEnds(folder, tokenizer);
  if (!ends.ok())
    return ends.status();
  // What models of several families put between documents; where a vocabulary has none, its end of a sequence.
  static constexpr const char *ofTexts[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]"};
  uint32_t endOfText = Vocabulary::none;
  for (const char *name : ofTexts)
    if (endOfText == Vocabulary::none)
      endOfText = tokenizer.find(name);
  if (endOfText == Vocabulary::none && ends->empty())
    return failure(MEBP_NOT_FOUND, "%s: names no end-of-text token; add eos_token to tokenizer_config.json",
                   folder.c_str());
  TextMarks marks;
  marks.before = tokenizer.aroundText().before;
  marks.endOfText = endOfText == Vocabulary::none ? ends->front() : static_cast<int32_t>(endOfText);
  marks.endOfSequence = ends->empty() ? marks.endOfText : ends->front();
  marks.stops = std::move(*ends);
  if (std::find(marks.stops.begin(), marks.stops.end(), marks.endOfText) == marks.stops.end())
    marks.stops.push_back(marks.endOfText);
  return marks;
}

} // namespace mebp::text
