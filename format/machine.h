// SPDX-License-Identifier: Apache-2.0
//
// What a file of measured costs says that it was measured on.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mebp::format {

// The processor's name as Linux tells it; an Arm core has its implementer's and its own number instead.
inline std::string processorName(const std::string &cpuinfo = "/proc/cpuinfo") {
  std::string implementer, name;
  char *text = nullptr;
  size_t room = 0;
  std::FILE *file = std::fopen(cpuinfo.c_str(), "re");
  for (ssize_t length; file && name.empty() && (length = ::getline(&text, &room, file)) > 0;) {
    const std::string line(text, static_cast<size_t>(length) - (text[length - 1] == '\n'));
    size_t colon = line.find(": ");
    std::string value = colon == line.npos ? "" : line.substr(colon + 2);
    if (line.rfind("model name", 0) == 0)
      name = value;
    else if (line.rfind("CPU implementer", 0) == 0)
      implementer = value;
    else if (line.rfind("CPU part", 0) == 0)
      name = "Arm " + implementer + " " + value;
  }
  std::free(text);
  if (file)
    std::fclose(file);
  return name.empty() ? "unknown" : name;
}

} // namespace mebp::format
