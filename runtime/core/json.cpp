// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/json.h"

namespace mebp {

namespace {

using Json = nlohmann::json;

// Stops at the first value beyond a limit, before anything is made of the text.
class Limits final : public Json::json_sax_t {
public:
  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t &) override { return count(); }
  bool string(string_t &) override { return count(); }
  bool binary(binary_t &) override { return count(); }
  bool key(string_t &) override { return count(); }
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(size_t, const std::string &, const Json::exception &) override { return false; }

private:
  static constexpr int deepest = 32, most = 1 << 18;

  bool count() { return ++values <= most; }
  bool begin() { return ++depth <= deepest && count(); }
  bool end() { return --depth >= 0; }

  int depth = 0, values = 0;
};

} // namespace

Json parseJson(std::string_view text) {
  Limits limits;
  if (!Json::sax_parse(text.begin(), text.end(), &limits))
    return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

} // namespace mebp
