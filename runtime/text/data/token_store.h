// SPDX-License-Identifier: Apache-2.0
//
// Tokens one after the other, each with whether it counts. Beyond 4 MiB they lie in a file without a name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/spill_file.h"
#include "runtime/core/status.h"

namespace mebp::text {

constexpr int32_t ignoredLabel = -100; // as in transformers

class TokenStore {
public:
  // folder: where the file goes, which has to be on a disk; empty: SpillFile's.
  TokenStore() = default;
  explicit TokenStore(std::string folder) : folder(std::move(folder)) {}

  uint64_t size() const { return written + last.size(); }
  Status append(int32_t id, bool counts);
  // Of `count` tokens from `begin` on: labels are ids where they count.
  Status read(uint64_t begin, uint64_t count, int32_t *ids, int32_t *labels) const;

private:
  static constexpr uint64_t inMemory = 1 << 20, together = 1 << 14; // tokens

  std::string folder;
  std::unique_ptr<SpillFile> file;
  uint64_t written = 0;      // tokens in the file
  std::vector<int32_t> last; // those behind them: an id, or its complement where it does not count
};

} // namespace mebp::text
