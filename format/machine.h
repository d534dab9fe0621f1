// SPDX-License-Identifier: Apache-2.0
//
// What a file of measured costs says that it was measured on.
#pragma once

#include <fstream>
#include <string>

namespace mebp::format {

// The processor's name as Linux tells it; an Arm core has its implementer's and its own number instead.
inline std::string processorName(const std::string &cpuinfo = "/proc/cpuinfo") {
  std::ifstream file(cpuinfo);
  std::string implementer;
  for (std::string line; std::getline(file, line);) {
    size_t colon = line.find(": ");
    std::string value = colon == line.npos ? "" : line.substr(colon + 2);
    if (line.rfind("model name", 0) == 0)
      return value;
    if (line.rfind("CPU implementer", 0) == 0)
      implementer = value;
    else if (line.rfind("CPU part", 0) == 0)
      return "Arm " + implementer + " " + value;
  }
  return "unknown";
}

} // namespace mebp::format
