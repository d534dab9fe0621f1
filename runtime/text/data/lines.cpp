// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/data/lines.h"

#include <algorithm>

#include "format/utf8.h"

namespace mebp::text {

Status Lines::open(const std::string &path) {
  Result<InputFile> opened = InputFile::open(path);
  if (!opened.ok())
    return opened.status();
  file = std::move(*opened);
  return Status();
}

Result<bool> Lines::next(std::string &line) {
  static constexpr char mark[] = "\xEF\xBB\xBF"; // that some editors put first
  while (true) {
    Result<bool> isThere = read(line);
    if (!isThere.ok() || !*isThere)
      return isThere;
    if (number == 1 && line.compare(0, 3, mark) == 0)
      line.erase(0, 3);
    if (line.find('\0') != std::string::npos)
      return failure(MEBP_INVALID_ARGUMENT, "%s: has a NUL byte, as no text has; give text, or JSON lines",
                     place().c_str());
    if (!format::isUtf8(line))
      return failure(MEBP_INVALID_ARGUMENT, "%s: is not UTF-8; convert it", place().c_str());
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      return true;
  }
}

// Up to the line's end, or the file's.
Result<bool> Lines::read(std::string &line) {
  constexpr uint64_t most = 1 << 16;
  line.clear();
  for (bool isOpen = false;; isOpen = true) {
    if (position == block.size()) {
      const uint64_t count = std::min(most, file.size() - offset);
      if (count == 0) {
        number += isOpen;
        return isOpen;
      }
      block.resize(count);
      if (Status status = file.read(offset, block.data(), count); !status.ok())
        return status;
      offset += count;
      position = 0;
    }
    const size_t end = block.find('\n', position);
    line.append(block, position, end == std::string::npos ? end : end - position);
    position = end == std::string::npos ? block.size() : end + 1;
    if (end == std::string::npos)
      continue;
    ++number;
    return true;
  }
}

} // namespace mebp::text
