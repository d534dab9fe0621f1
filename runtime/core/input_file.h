// SPDX-License-Identifier: Apache-2.0
//
// A file, or a part of one, that is open for reading: what gets its name later does not matter.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/core/status.h"

namespace mebp {

class InputFile {
public:
  InputFile() = default;
  explicit InputFile(std::string missing) : called(std::move(missing)) {} // has no bytes
  InputFile(const InputFile &) = delete;
  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

  // Refuses what is not a regular file; a pipe is not waited for.
  static Result<InputFile> open(const std::string &path);
  // `length` bytes from `offset` on, 0: up to the end. The descriptor stays the caller's; `name` is for messages.
  static Result<InputFile> part(const std::string &name, int descriptor, uint64_t offset, uint64_t length);

  const std::string &name() const { return called; }
  int descriptor() const { return number; }
  uint64_t offset() const { return begin; } // in what the descriptor stands for
  uint64_t size() const { return length; }

  // `offset` counts from this part's first byte.
  Status read(uint64_t offset, void *data, uint64_t bytes) const;
  // All of it. What is read whole is small; a larger file is not ours, and would only take all memory.
  Result<std::string> readAll(uint64_t largest) const;

private:
  Status takeSize();

  std::string called;
  int number = -1;
  uint64_t begin = 0, length = 0;
};

} // namespace mebp
