// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON that nobody vouches for: text that is nested deeper than 32, or has more than 262,144 values, is none.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mebp {

// A discarded value, which is of no type, where the text is no JSON. Keys come sorted: an object that keeps their order
// takes a time that grows with the square of their number. Where memory may run out, use visitJson: what such a value
// is destroyed with allocates, too.
nlohmann::json parseJson(std::string_view text);

// Is told a text from its beginning to its end.
class JsonVisitor {
public:
  virtual ~JsonVisitor() = default;
  virtual void begin(bool /*isArray*/) {}
  virtual void end() {}
  virtual void key(const std::string &) {}
  virtual void text(const std::string &) {}
  virtual void whole(uint64_t) {} // not negative
  virtual void number(double) {}  // any other
  virtual void other() {}         // true, false, null
};
// False where the text is no JSON, of which the visitor may have been told a part.
bool visitJson(std::string_view text, JsonVisitor &visitor);

} // namespace mebp
