// SPDX-License-Identifier: Apache-2.0
//
// What commands, refusals and readers ask of a table whose rows have names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mebp::format {

// Null where no row has that name.
template <typename Row, size_t N> constexpr const Row *findByName(const Row (&table)[N], std::string_view name) {
  for (const Row &row : table)
    if (name == row.name)
      return &row;
  return nullptr;
}

// Of the rows of which `holds` says true.
template <typename Row, size_t N, typename Holds>
std::vector<std::string> namesOf(const Row (&table)[N], const Holds &holds) {
  std::vector<std::string> names;
  for (const Row &row : table)
    if (holds(row))
      names.emplace_back(row.name);
  return names;
}
template <typename Row, size_t N> std::vector<std::string> namesOf(const Row (&table)[N]) {
  return namesOf(table, [](const Row &) { return true; });
}

// "a, b or c".
inline std::string listed(const std::vector<std::string> &names, const char *beforeLast = " or ") {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += (i == 0 ? "" : i + 1 < names.size() ? ", " : beforeLast) + names[i];
  return list;
}

} // namespace mebp::format
