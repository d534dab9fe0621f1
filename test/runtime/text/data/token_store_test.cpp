// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "runtime/text/data/token_store.h"
#include "support/full_disk.h"
#include "support/tiny_model.h"

namespace mebp::text {
namespace {

constexpr uint64_t many = (1 << 20) + (1 << 15) + 77; // more than memory takes, and not a whole number of parts

int32_t idOf(uint64_t place) { return static_cast<int32_t>(place * 7 % 100003); }
bool doesCount(uint64_t place) { return place * place % 3 != 1; }

Status fill(TokenStore &store, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    if (Status status = store.append(idOf(i), doesCount(i)); !status.ok())
      return status;
  return Status();
}

TEST(TokenStore, GivesBackWhatItWasGivenWhereverThatLies) {
  TokenStore store(std::filesystem::current_path().string());
  ASSERT_TRUE(fill(store, many).ok());
  EXPECT_EQ(store.size(), many);
  std::mt19937_64 chance(3);
  std::vector<std::pair<uint64_t, uint64_t>> parts = {
      {0, many}, {0, 0}, {many, 0}, {many - 77, 77}, {(1 << 20) - 1, 2}};
  for (int i = 0; i < 200; ++i) {
    const uint64_t begin = chance() % many;
    parts.emplace_back(begin, chance() % std::min<uint64_t>(many - begin, 1 << 12));
  }
  for (auto [begin, count] : parts) {
    std::vector<int32_t> ids(count), labels(count);
    ASSERT_TRUE(store.read(begin, count, ids.data(), labels.data()).ok());
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i)
      wrong += ids[i] != idOf(begin + i) || labels[i] != (doesCount(begin + i) ? ids[i] : ignoredLabel);
    EXPECT_EQ(wrong, 0u) << count << " tokens from " << begin << " on";
  }
}

TEST(TokenStore, NeedsNoFolderForLittle) {
  TokenStore store("/nowhere");
  EXPECT_TRUE(fill(store, 1000).ok());
  EXPECT_EQ(fill(store, many).message(),
            "/nowhere: cannot make a file here: No such file or directory; check the path");
}

TEST(TokenStore, AFullDiskIsOneLine) {
  const std::string folder = std::filesystem::current_path().string();
  TokenStore store(folder);
  const test::FullDisk disk(1 << 20);
  EXPECT_EQ(fill(store, many).message(), folder + ": cannot write what is spilled: File too large");
}

} // namespace
} // namespace mebp::text
