// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/decimal.h"

#include <charconv>
#include <cstdlib>

namespace mebp {

double decimalOf(float number) {
  char text[32] = {};
  std::to_chars(text, text + sizeof(text) - 1, number);
  return std::strtod(text, nullptr);
}

} // namespace mebp
