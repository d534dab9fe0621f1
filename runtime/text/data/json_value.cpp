// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/json_value.h"

#include <nlohmann/json.hpp>

namespace mebp::text {

namespace {

using Json = nlohmann::json;

class Builder final : public Json::json_sax_t {
public:
  explicit Builder(JsonValue &root) : root(root) {}

  bool null() override { return put({}); }
  bool boolean(bool value) override { return put(JsonValue::Kind::Truth, value); }
  bool number_integer(number_integer_t value) override {
    return put(JsonValue::Kind::Number, static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return put(JsonValue::Kind::Number, static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t &) override { return put(JsonValue::Kind::Number, value); }
  bool string(string_t &value) override {
    JsonValue made;
    made.kind = JsonValue::Kind::Text;
    made.text = std::move(value);
    return put(std::move(made));
  }
  bool binary(binary_t &) override { return false; }
  bool start_object(size_t) override { return open(JsonValue::Kind::Object); }
  bool start_array(size_t) override { return open(JsonValue::Kind::List); }
  bool key(string_t &value) override {
    around.back()->keys.push_back(std::move(value));
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string &, const Json::exception &) override {
    wrongAt = position;
    return false;
  }

  size_t wrongAt = 0; // where it is no JSON, counted from 1
  bool isTooLarge = false;

private:
  static constexpr size_t deepest = 32, most = 1 << 18;

  bool put(JsonValue::Kind kind, double number) {
    JsonValue made;
    made.kind = kind;
    made.number = number;
    return put(std::move(made));
  }
  bool put(JsonValue made) {
    isTooLarge = ++count > most;
    place(std::move(made));
    return !isTooLarge;
  }
  JsonValue &place(JsonValue made) {
    if (around.empty())
      return root = std::move(made);
    return around.back()->values.emplace_back(std::move(made));
  }
  bool open(JsonValue::Kind kind) {
    JsonValue made;
    made.kind = kind;
    isTooLarge = ++count > most || around.size() == deepest;
    if (isTooLarge)
      return false;
    around.push_back(&place(std::move(made))); // which stays: nothing is added to what is around it before it is closed
    return true;
  }
  bool close() {
    around.pop_back();
    return true;
  }

  JsonValue &root;
  std::vector<JsonValue *> around;
  size_t count = 0;
};

} // namespace

const JsonValue *JsonValue::find(std::string_view key) const {
  for (size_t i = keys.size(); i-- > 0;)
    if (keys[i] == key)
      return &values[i];
  return nullptr;
}

const char *JsonValue::name() const {
  static constexpr const char *names[] = {"null", "a truth value", "a number", "a string", "a list", "an object"};
  return names[static_cast<int>(kind)];
}

Result<JsonValue> parseJsonValue(std::string_view text) {
  JsonValue found;
  Builder builder(found);
  if (Json::sax_parse(text.begin(), text.end(), &builder))
    return found;
  if (builder.isTooLarge)
    return failure(MEBP_UNSUPPORTED, "is nested more than 32 deep, or has more than 262,144 values; make it smaller");
  return failure(MEBP_INVALID_ARGUMENT, "is not JSON (column %zu); write one object a line", builder.wrongAt);
}

} // namespace mebp::text
