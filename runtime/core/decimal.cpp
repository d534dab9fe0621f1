// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/decimal.h"

#include <cstdio>
#include <cstdlib>

#include "runtime/core/plain_locale.h"

namespace mebp {

double decimalOf(float number) {
  // The fewest digits that are read as this float again; what a locale writes for a point, it reads as one.
  char text[32];
  for (int digits = 1; digits <= 9; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, static_cast<double>(number));
    if (std::strtof(text, nullptr) == number)
      return std::strtod(text, nullptr);
  }
  return static_cast<double>(number); // not a number
}

bool readDecimal(const std::string &text, double &number) {
  const PlainLocale plain;
  char *end = nullptr;
  number = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0';
}

} // namespace mebp
