// SPDX-License-Identifier: Apache-2.0
//
// PEFT's target_modules where an adapter is of a part of a model. Names alone would be those of layers beside it, too:
// a tower that sees has its own q_proj. PEFT then takes a regular expression, of which one form is written and read:
//
//   (?:model\.language_model\.(?:.+\.)?)?(?:down_proj|q_proj)
//
// is each of the names anywhere in the part, or as the whole name of a layer, as a head outside of it has.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mebp::format {

namespace target_pattern {
inline constexpr std::string_view begin = "(?:", afterPart = "\\.(?:.+\\.)?)?(?:", end = ")", dot = "\\.";

inline bool isNamed(std::string_view name) {
  constexpr std::string_view characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !name.empty() && name.find_first_not_of(characters) == std::string_view::npos;
}
} // namespace target_pattern

// `part`: of modules with dots between them.
inline std::string targetPattern(std::string_view part, const std::vector<std::string> &names) {
  std::string text(target_pattern::begin);
  for (char character : part)
    text += character == '.' ? std::string(target_pattern::dot) : std::string(1, character);
  text += target_pattern::afterPart;
  for (size_t i = 0; i < names.size(); ++i)
    text.append(i ? "|" : "").append(names[i]);
  return text.append(target_pattern::end);
}

// Its names; nothing where it has another form.
inline std::optional<std::vector<std::string>> namesOfTargetPattern(std::string_view text) {
  using namespace target_pattern;
  const size_t middle = text.find(afterPart);
  if (middle == std::string_view::npos || text.substr(0, begin.size()) != begin || text.back() != end.front())
    return std::nullopt;
  for (std::string_view part = text.substr(begin.size(), middle - begin.size());;) {
    const size_t length = part.find(dot);
    if (!isNamed(part.substr(0, length)))
      return std::nullopt;
    if (length == std::string_view::npos)
      break;
    part.remove_prefix(length + dot.size());
  }
  text = text.substr(middle + afterPart.size());
  text.remove_suffix(end.size());
  std::vector<std::string> names;
  for (;;) {
    const size_t length = text.find('|');
    if (!isNamed(text.substr(0, length)))
      return std::nullopt;
    names.emplace_back(text.substr(0, length));
    if (length == std::string_view::npos)
      return names;
    text.remove_prefix(length + 1);
  }
}

} // namespace mebp::format
