// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "runtime/text/data/permutation.h"

namespace mebp::text {
namespace {

using Order = std::vector<uint64_t>;

// As its default_rng(key).permutation(10) gives them; test/e2e/test_text_data.py has longer ones.
TEST(Permutation, IsNumpys) {
  EXPECT_EQ(permutation({0}, 10), (Order{4, 6, 2, 7, 3, 5, 9, 0, 8, 1}));
  EXPECT_EQ(permutation({5, 3}, 10), (Order{9, 1, 0, 3, 4, 2, 7, 8, 6, 5}));
  EXPECT_EQ(permutation({uint64_t{1} << 40, 2}, 10), (Order{4, 8, 3, 9, 7, 6, 0, 1, 5, 2}));
  EXPECT_EQ(permutation({1, 2, 3, 4, 5, 6}, 10), (Order{0, 9, 7, 8, 3, 6, 5, 4, 1, 2}));
}

TEST(Permutation, HasEachNumberOnce) {
  for (uint64_t count : {0, 1, 2, 3, 17, 1000}) {
    Order found = permutation({count, 7}, count), expected(count);
    std::iota(expected.begin(), expected.end(), uint64_t{0});
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected);
  }
}

} // namespace
} // namespace mebp::text
