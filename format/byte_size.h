// SPDX-License-Identifier: Apache-2.0
//
// Sizes as options take them, "64MiB", and as plans print them, "64.50 MB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mebp::format {

// Digits with a point among them or none: 67.1 is 671 / 10, so that what it is a multiple of is rounded once.
struct Decimal {
  double digits = 0, scale = 1;
};

// Reads one, in every locale; false for anything else.
inline bool parseDecimal(std::string_view text, Decimal &decimal) {
  bool isFraction = false, any = false;
  for (char c : text) {
    if (c == '.' && !isFraction) {
      isFraction = true;
      continue;
    }
    if (c < '0' || c > '9')
      return false;
    any = true;
    decimal.digits = 10 * decimal.digits + (c - '0');
    decimal.scale *= isFraction ? 10 : 1;
  }
  return any;
}

// Reads "64MiB" (B, KB, MB, GB, KiB, MiB, GiB; fractions allowed) into `bytes`. Returns what is wrong and what to write
// instead, or nothing.
inline std::string parseByteSize(std::string_view text, uint64_t &bytes) {
  struct Unit {
    const char *name;
    double bytes;
  };
  constexpr Unit units[] = {{"B", 1},         {"KB", 1e3},      {"MB", 1e6},     {"GB", 1e9},
                            {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  size_t end = text.find_first_not_of("0123456789."), unitStart = text.find_first_not_of(" \t", end);
  std::string number(text.substr(0, end)), unit(unitStart == text.npos ? "" : text.substr(unitStart));
  unit.erase(unit.find_last_not_of(" \t") + 1);
  double unitBytes = 0;
  Decimal decimal;
  if (!parseDecimal(number, decimal))
    return "is not a size; give one such as 64MiB";
  if (unit.empty())
    return "has no unit; write " + number + "MiB, " + number + "MB or another of B, KB, MB, GB, KiB, MiB, GiB";
  for (const Unit &known : units)
    if (unit == known.name)
      unitBytes = known.bytes;
  if (unitBytes == 0)
    return "has the unit '" + unit + "'; there are B, KB, MB, GB, KiB, MiB and GiB";
  const double value = decimal.digits * unitBytes / decimal.scale;
  if (value < 1)
    return "is no memory; give a size such as 64MiB";
  if (!(value <= 1e18))
    return "is more than any machine has; write a size such as 64MiB";
  bytes = static_cast<uint64_t>(value);
  return "";
}

// "64.50 MB", in units of 10^6 bytes; rounded up, so that it is enough where somebody gives that much.
inline std::string formatMegabytes(uint64_t bytes) {
  uint64_t hundredths = (bytes + 9999) / 10000, fraction = hundredths % 100;
  return std::to_string(hundredths / 100) + (fraction < 10 ? ".0" : ".") + std::to_string(fraction) + " MB";
}

} // namespace mebp::format
