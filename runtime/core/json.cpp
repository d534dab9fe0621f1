// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/json.h"

namespace mebp {

namespace {

using Json = nlohmann::json;

// Stops at the first value beyond a limit.
class Limited final : public Json::json_sax_t {
public:
  explicit Limited(JsonVisitor &visitor) : visitor(visitor) {}

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t value) override {
    visitor.number(static_cast<double>(value));
    return count();
  }
  bool number_unsigned(number_unsigned_t value) override {
    visitor.whole(value);
    return count();
  }
  bool number_float(number_float_t value, const string_t &) override {
    visitor.number(value);
    return count();
  }
  bool string(string_t &value) override {
    visitor.text(value);
    return count();
  }
  bool binary(binary_t &) override { return other(); }
  bool key(string_t &value) override {
    visitor.key(value);
    return count();
  }
  bool start_object(size_t) override { return begin(false); }
  bool start_array(size_t) override { return begin(true); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(size_t, const std::string &, const Json::exception &) override { return false; }

private:
  static constexpr int deepest = 32, most = 1 << 18;

  bool count() { return ++values <= most; }
  bool other() {
    visitor.other();
    return count();
  }
  bool begin(bool isArray) {
    visitor.begin(isArray);
    return ++depth <= deepest && count();
  }
  bool end() {
    visitor.end();
    return --depth >= 0;
  }

  JsonVisitor &visitor;
  int depth = 0, values = 0;
};

} // namespace

bool visitJson(std::string_view text, JsonVisitor &visitor) {
  Limited limited(visitor);
  return Json::sax_parse(text.begin(), text.end(), &limited);
}

Json parseJson(std::string_view text) {
  JsonVisitor nobody;
  if (!visitJson(text, nobody))
    return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

} // namespace mebp
