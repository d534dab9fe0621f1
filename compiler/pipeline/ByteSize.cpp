// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ByteSize.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using llvm::StringRef;

namespace mebp {

std::string parseByteSize(StringRef text, uint64_t &bytes) {
  size_t end = text.find_first_not_of("0123456789.");
  StringRef number = text.take_front(end), unit = end == StringRef::npos ? "" : text.drop_front(end).trim();
  double value = 0;
  if (number.empty() || number.getAsDouble(value))
    return "is no size; write one such as 64MiB";
  if (unit.empty())
    return ("has no unit; write " + number + "MiB, " + number + "MB or another of B, KB, MB, GB, KiB, MiB, GiB").str();
  double scale = llvm::StringSwitch<double>(unit)
                     .Case("B", 1)
                     .Case("KB", 1e3)
                     .Case("MB", 1e6)
                     .Case("GB", 1e9)
                     .Case("KiB", 1 << 10)
                     .Case("MiB", 1 << 20)
                     .Case("GiB", 1 << 30)
                     .Default(0);
  if (scale == 0)
    return ("has the unit '" + unit + "'; there are B, KB, MB, GB, KiB, MiB and GiB").str();
  if (value * scale < 1)
    return "is no memory at all; write a size such as 64MiB";
  if (value * scale > 1e18)
    return "is more than any machine has; write a size such as 64MiB";
  bytes = static_cast<uint64_t>(value * scale);
  return "";
}

std::string formatMegabytes(uint64_t bytes) {
  return llvm::formatv("{0:f2} MB", static_cast<double>(bytes) / 1e6).str();
}

} // namespace mebp
