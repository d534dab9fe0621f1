// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer/fields.h"

#include "runtime/text/unicode/utf8.h"

namespace mebp::text {

namespace {

constexpr const char *advice = "use a model with a tokenizer that docs/format.md has, or train on token ids";

} // namespace

Fields::Fields(const Json &given, std::string name) : object(given), kind(std::move(name)), seen{"type"} {
  if (!object.is_object()) {
    failed = failure(MEBP_CORRUPT, "%s is not an object; save the tokenizer again", kind.c_str());
    return;
  }
  if (const Json *type = find("type"); type && type->is_string())
    ownType = *type->get_ptr<const std::string *>();
}

const Json *Fields::find(const char *key) {
  seen.insert(key);
  if (!object.is_object())
    return nullptr;
  const auto entry = object.find(key);
  return entry == object.end() || entry->is_null() ? nullptr : &*entry;
}

void Fields::refuse(const Status &status) {
  if (failed.ok())
    failed = status.in(kind + (ownType.empty() ? "" : " " + ownType));
}

void Fields::refuse(const std::string &about) {
  refuse(failure(MEBP_UNSUPPORTED, "%s is not supported; %s", about.c_str(), advice));
}

Status Fields::refuseType() const {
  if (!failed.ok())
    return failed;
  return failure(MEBP_UNSUPPORTED, "%s '%s' is not supported; %s", kind.c_str(), ownType.c_str(), advice);
}

bool Fields::flag(const char *key, bool otherwise) {
  const Json *value = find(key);
  if (value && !value->is_boolean())
    refuse(std::string(key) + ", which is neither true nor false,");
  return value && value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string Fields::text(const char *key, const char *otherwise) {
  const Json *value = find(key);
  if (value && !value->is_string())
    refuse(std::string(key) + ", which is not text,");
  return value && value->is_string() ? *value->get_ptr<const std::string *>() : otherwise;
}

std::string Fields::character(const char *key, const char *otherwise) {
  std::string read = text(key, otherwise);
  if (read.empty() || characterLength(static_cast<unsigned char>(read[0])) != read.size())
    refuse(std::string(key) + " '" + read + "', which is not one character,");
  return read;
}

uint64_t Fields::whole(const char *key, uint64_t otherwise) {
  const Json *value = find(key);
  if (value && !value->is_number_unsigned())
    refuse(std::string(key) + ", which is not a whole number,");
  return value && value->is_number_unsigned() ? value->get<uint64_t>() : otherwise;
}

const Json &Fields::list(const char *key) {
  static const Json none = Json::array();
  const Json *value = find(key);
  if (value && value->is_array())
    return *value;
  refuse(std::string(key) + ", which is not a list,");
  return none;
}

Pattern Fields::pattern(const char *key) {
  const Json *value = find(key);
  if (value && value->is_object() && value->size() == 1 && value->begin()->is_string()) {
    const std::string &text = *value->begin()->get_ptr<const std::string *>();
    if (value->contains("String"))
      return Pattern::literal(text);
    if (value->contains("Regex")) {
      Result<Pattern> made = Pattern::regex(text);
      if (made.ok())
        return *made;
      refuse(failure(MEBP_UNSUPPORTED, "%s; %s", made.status().message().c_str(), advice));
      return Pattern::literal("");
    }
  }
  refuse(std::string(key));
  return Pattern::literal("");
}

Status Fields::end() {
  if (failed.ok() && object.is_object())
    for (const auto &entry : object.items())
      if (!seen.count(entry.key()))
        refuse("'" + entry.key() + "'");
  return failed;
}

} // namespace mebp::text
