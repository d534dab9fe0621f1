// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/decimal.h"

#include <charconv>

namespace mebp {

double decimalOf(float number) {
  char text[32];
  double decimal = 0;
  std::from_chars(text, std::to_chars(text, text + sizeof(text), number).ptr, decimal);
  return decimal;
}

} // namespace mebp
