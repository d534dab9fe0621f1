// SPDX-License-Identifier: Apache-2.0
//
// chat.json, whose keys docs/format.md has.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "runtime/text/chat/pieces.h"

namespace mebp::text {

namespace {

using Kind = JsonValue::Kind;
constexpr double newest = 1;
constexpr std::string_view speakers[] = {"system", "user", "assistant"};

Status damaged(const std::string &key) {
  return failure(MEBP_CORRUPT, "\"%s\" is not what mebp export writes; export the model again", key.c_str());
}

// The value of this key; null where there is none of this kind.
const JsonValue *find(const JsonValue &value, std::string_view key, Kind kind) {
  const JsonValue *found = value.kind == Kind::Object ? value.find(key) : nullptr;
  return found && found->kind == kind ? found : nullptr;
}

bool readTrim(const JsonValue *list, Trim &trim) {
  static constexpr std::string_view names[] = {"", "line breaks", "spaces", "white space"};
  if (!list || list->values.size() != 2)
    return false;
  Trimmed *ends[] = {&trim.left, &trim.right};
  for (size_t i = 0; i < 2; ++i) {
    const auto *name = std::find(std::begin(names), std::end(names), list->values[i].text);
    if (!list->values[i].isText() || name == std::end(names))
      return false;
    *ends[i] = static_cast<Trimmed>(name - std::begin(names));
  }
  return true;
}

bool readTexts(const JsonValue *list, std::vector<std::string> &out) {
  if (!list || !std::all_of(list->values.begin(), list->values.end(), [](const auto &each) { return each.isText(); }))
    return false;
  for (const JsonValue &each : list->values)
    out.push_back(each.text);
  return true;
}

bool readInteger(const JsonValue &value, double limit, uint32_t &out) {
  if (value.kind != Kind::Number || !(value.number >= 0 && value.number < limit) ||
      value.number != std::floor(value.number))
    return false;
  out = static_cast<uint32_t>(value.number);
  return true;
}

bool readIds(const JsonValue *list, std::vector<int32_t> &out) {
  uint32_t id = 0;
  for (const JsonValue &each : list ? list->values : std::vector<JsonValue>()) {
    if (!readInteger(each, 1u << 31, id))
      return false;
    out.push_back(static_cast<int32_t>(id));
  }
  return list && std::is_sorted(out.begin(), out.end());
}

bool readPiece(const JsonValue &value, ChatPiece &out) {
  const JsonValue *within = find(value, "within", Kind::Text), *end = find(value, "end", Kind::Text);
  if (!within || !end || !readTrim(find(value, "trim", Kind::List), out.trim) ||
      !readTexts(find(value, "before", Kind::List), out.before) ||
      !readTexts(find(value, "after", Kind::List), out.after))
    return false;
  out.within = within->text;
  out.end = end->text;
  return true;
}

// Whose turn it is -> whether it is not the first -> how many follow.
bool readPlaces(const JsonValue &value, size_t count, PieceForm &out) {
  for (size_t speaker = 0; speaker < 2; ++speaker) {
    const JsonValue *rows = find(value, speakers[speaker + 1], Kind::List);
    if (!rows || rows->values.size() != 2)
      return false;
    for (size_t row = 0; row < 2; ++row) {
      const std::vector<JsonValue> &numbers = rows->values[row].values;
      if (rows->values[row].kind != Kind::List || numbers.size() != 3)
        return false;
      for (size_t follow = 0; follow < 3; ++follow) {
        uint32_t number = 0;
        if (numbers[follow].kind == Kind::Null)
          continue;
        if (!readInteger(numbers[follow], static_cast<double>(count), number))
          return false;
        out.places[speaker][row][follow] = number;
      }
    }
  }
  return true;
}

} // namespace

Result<ChatPieces> ChatPieces::read(std::string_view json) {
  Result<JsonValue> whole = parseJsonValue(json);
  if (!whole.ok())
    return failure(MEBP_CORRUPT, "is not JSON, or too large; export the model again");
  const JsonValue *version = find(*whole, "version", Kind::Number);
  if (!version)
    return damaged("version");
  if (version->number != newest)
    return failure(MEBP_INCOMPATIBLE, "has version %g, and this library reads %g; use a newer library", version->number,
                   newest);
  ChatPieces out;
  const JsonValue *pieces = find(*whole, "pieces", Kind::List), *forms = find(*whole, "forms", Kind::List);
  if (!pieces || !forms)
    return damaged(pieces ? "forms" : "pieces");
  for (const JsonValue &each : pieces->values)
    if (!readPiece(each, out.pieces.emplace_back()))
      return damaged("pieces");
  for (const JsonValue &each : forms->values) {
    const JsonValue *isPrompt = find(each, "prompt", Kind::Truth), *places = find(each, "pieces", Kind::Object);
    const JsonValue *system = find(each, "system", Kind::List);
    PieceForm form;
    if (!isPrompt || !places || !readPlaces(*places, out.pieces.size(), form) ||
        !(system ? readTrim(system, form.system) : find(each, "system", Kind::Null) != nullptr))
      return damaged("forms");
    out.forms[system != nullptr][isPrompt->number != 0] = form;
  }
  if (!out.forms[0][0] && !out.forms[1][0])
    return damaged("forms");
  const JsonValue *refused = find(*whole, "refused", Kind::Object);
  for (size_t i = 0; refused && i < refused->keys.size(); ++i) {
    const auto *speaker = std::find(std::begin(speakers), std::end(speakers), refused->keys[i]);
    if (speaker == std::end(speakers) || refused->values[i].kind != Kind::List ||
        !readTexts(&refused->values[i], out.refused[speaker - std::begin(speakers)]))
      return damaged("refused");
  }
  const JsonValue *skips = find(*whole, "skips_empty_system", Kind::Truth);
  const JsonValue *marked = find(*whole, "marked", Kind::Truth), *thought = find(*whole, "thought", Kind::Text);
  for (const auto &[key, isThere] :
       {std::pair("refused", refused), {"skips_empty_system", skips}, {"marked", marked}, {"thought", thought}})
    if (!isThere)
      return damaged(key);
  if (!readIds(find(*whole, "stop", Kind::List), out.stop))
    return damaged("stop");
  if (!readIds(find(*whole, "closing", Kind::List), out.closing))
    return damaged("closing");
  out.skipsEmptySystem = skips->number != 0;
  out.marked = marked->number != 0;
  out.thought = thought->text;
  return out;
}

} // namespace mebp::text
