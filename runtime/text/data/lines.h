// SPDX-License-Identifier: Apache-2.0
//
// The lines of a file one after the other, of which no more is held than one.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/core/input_file.h"
#include "runtime/core/status.h"

namespace mebp::text {

class Lines {
public:
  Status open(const std::string &path);
  // The next one that is not blank, without its end; false at the end of the file. Refuses a NUL byte and what is not
  // UTF-8.
  Result<bool> next(std::string &line);
  // Of the line that was read last: FILE:LINE.
  std::string place() const { return file.name() + ":" + std::to_string(number); }

private:
  Result<bool> read(std::string &line);

  InputFile file;
  std::string block;
  size_t position = 0; // in the block
  uint64_t offset = 0; // of the file, behind the block
  uint64_t number = 0;
};

} // namespace mebp::text
