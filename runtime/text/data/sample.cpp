// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/sample.h"

#include <algorithm>
#include <iterator>

namespace mebp::text {

using Kind = JsonValue::Kind;

static constexpr const char *wanted = "give \"text\", \"prompt\" and \"completion\", or \"messages\", or train with "
                                      "mebp train, which reads more";
static constexpr const char *turnWanted = "{\"role\", \"content\"}";

const char *nameOf(Form form) {
  static constexpr const char *names[] = {"\"text\"", "\"prompt\" and \"completion\"", "\"messages\""};
  return names[static_cast<int>(form)];
}

static Status refuse(const std::string &place, const std::string &what) {
  return Status(MEBP_INVALID_ARGUMENT, place + ": " + what);
}

// The same where the place goes on: FILE:LINE: messages[3] has ...
static Status refuseTurn(const std::string &place, const std::string &what) {
  return Status(MEBP_INVALID_ARGUMENT, place + " " + what);
}

static std::string quoted(const std::string &key) {
  constexpr size_t longest = 64;
  return "\"" + (key.size() > longest ? "(a long key)" : key) + "\"";
}

// What other trainers mark what is not to be learned by; a text under such a key marks nothing.
static bool isMark(const std::string &key, const JsonValue &value) {
  static constexpr std::string_view marks[] = {"weight", "loss_mask", "train", "trainable", "loss", "label"};
  return (value.kind == Kind::Truth || value.kind == Kind::Number) &&
         std::find(std::begin(marks), std::end(marks), key) != std::end(marks);
}

// Whether its marks say that it is to be learned. `known`: the keys that are read.
static Result<bool> readMarks(const JsonValue &object, const std::string &place,
                              const std::vector<std::string_view> &known) {
  bool isLearned = true;
  for (const std::string &key : object.keys) {
    const JsonValue &value = *object.find(key);
    if (std::find(known.begin(), known.end(), key) != known.end() || value.kind == Kind::Null)
      continue;
    if (!isMark(key, value))
      return refuse(place, "has " + quoted(key) +
                               ", which is not read without Python; leave it out, or train with mebp "
                               "train");
    if (value.number != 0 && value.number != 1)
      return refuse(place, textOf("\"%s\" is %g; give 1 to learn it, or 0 to leave it out", key.c_str(), value.number) +
                               (key == "weight" ? "; with mebp train --turn-weights it multiplies" : ""));
    isLearned &= value.number == 1;
  }
  return isLearned;
}

static Status checkText(const std::string &text, const std::string &place, const std::string &name) {
  return text.find('\0') == std::string::npos
             ? Status()
             : refuse(place, name + " has the character U+0000, as no text has; leave it out");
}

static Status readText(const JsonValue &object, const std::string &place, const char *key, std::string &out) {
  const JsonValue &value = *object.find(key);
  if (!value.isText())
    return refuse(place, std::string("\"") + key + "\" is " + value.name() + "; give a string");
  out = value.text;
  return checkText(out, place, quoted(key));
}

// Also where it is in parts {"type": "text", "text"}.
static Status readContent(const JsonValue &turn, const std::string &place, std::string &out) {
  const JsonValue &content = *turn.find("content");
  if (content.kind != Kind::List)
    return readText(turn, place, "content", out);
  for (size_t i = 0; i < content.values.size(); ++i) {
    const JsonValue &part = content.values[i];
    const std::string partPlace = place + ": content[" + std::to_string(i) + "]";
    if (part.kind != Kind::Object)
      return refuseTurn(partPlace, std::string("is ") + part.name() + "; give {\"type\": \"text\", \"text\": \"...\"}");
    const JsonValue *type = part.find("type");
    if (!type || type->text != "text" || !part.find("text"))
      return refuseTurn(partPlace, "is not {\"type\": \"text\", \"text\": \"...\"}; mebp trains on text alone");
    std::string text;
    if (Status status = readText(part, partPlace, "text", text); !status.ok())
      return status;
    out += text;
  }
  return Status();
}

static Status readTurn(const JsonValue &given, const std::string &place, Turn &out) {
  static constexpr std::string_view roles[] = {"system", "developer", "user", "assistant", "tool"};
  if (given.kind != Kind::Object)
    return refuseTurn(place, std::string("is ") + given.name() + "; give " + turnWanted);
  for (const char *key : {"role", "content"})
    if (!given.find(key))
      return refuseTurn(place, std::string("has no \"") + key + "\"; give " + turnWanted);
  Result<bool> isLearned = readMarks(given, place, {"role", "content"});
  if (!isLearned.ok())
    return isLearned.status();
  if (Status status = readText(given, place, "role", out.role); !status.ok())
    return status;
  if (std::find(std::begin(roles), std::end(roles), out.role) == std::end(roles))
    return refuseTurn(place,
                      "has the role " + quoted(out.role) + "; choose one of system, developer, user, assistant, tool");
  out.isLearned = *isLearned;
  return readContent(given, place, out.content);
}

static Status readTurns(const JsonValue &entry, const std::string &place, Sample &out) {
  const JsonValue &turns = *entry.find("messages");
  if (turns.kind != Kind::List)
    return refuse(place, std::string("\"messages\" is ") + turns.name() + "; give a list of " + turnWanted);
  bool hasAnswer = false, hasLearned = false;
  for (size_t i = 0; i < turns.values.size(); ++i) {
    Turn &turn = out.turns.emplace_back();
    if (Status status = readTurn(turns.values[i], place + ": messages[" + std::to_string(i) + "]", turn); !status.ok())
      return status;
    hasAnswer |= turn.role == "assistant";
    hasLearned |= turn.role == "assistant" && turn.isLearned;
  }
  if (!hasAnswer)
    return refuse(place, "has no turn of the assistant, so there is nothing to learn; leave it out");
  out.isLearned &= hasLearned;
  return Status();
}

Result<Sample> readSample(const JsonValue &entry, const std::string &place) {
  if (entry.kind != Kind::Object)
    return refuse(place, std::string("is ") + entry.name() + "; write one object a line");
  const bool hasText = entry.find("text"), hasMessages = entry.find("messages"),
             hasCompletion = entry.find("prompt") && entry.find("completion");
  if (!hasText && !hasMessages && !hasCompletion)
    return refuse(place, (entry.keys.empty() ? "is empty; " : "has " + quoted(entry.keys.front()) + "; ") +
                             std::string(wanted));
  Sample sample;
  sample.form = hasMessages ? Form::Messages : hasCompletion ? Form::Completion : Form::Text;
  const std::vector<std::string_view> known[] = {{"text"}, {"prompt", "completion"}, {"messages"}};
  Result<bool> isLearned = readMarks(entry, place, known[static_cast<int>(sample.form)]);
  if (!isLearned.ok())
    return isLearned.status();
  sample.isLearned = *isLearned;
  if (hasMessages) {
    if (Status status = readTurns(entry, place, sample); !status.ok())
      return status;
    return sample;
  }
  if (hasCompletion)
    if (Status status = readText(entry, place, "prompt", sample.prompt); !status.ok())
      return status;
  if (Status status = readText(entry, place, hasCompletion ? "completion" : "text", sample.text); !status.ok())
    return status;
  if (hasCompletion && sample.text.empty())
    return refuse(place, "\"completion\" is empty, so there is nothing to learn; leave it out");
  return sample;
}

} // namespace mebp::text
