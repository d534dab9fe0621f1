// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/text/data/white_space.h"

namespace mebp::text {
namespace {

TEST(WhiteSpace, IsWhatPythonStrips) {
  const std::string_view text = " \t\x1c\x1f\u0085\u00a0\u2003\u3000a \u00a0b\u2029\r\n\x0b";
  EXPECT_EQ(stripLeft(stripRight(text)), "a \u00a0b");
  EXPECT_EQ(stripLeft(" \n\u3000"), "");
  // A joiner, a mark of byte order and a part of another character are none.
  for (std::string_view kept : {"\u200b", "\ufeff", "\u0105", "\u3001", "\x1b"}) {
    EXPECT_EQ(stripLeft(kept), kept);
    EXPECT_EQ(stripRight(kept), kept);
  }
}

TEST(WhiteSpace, MayBeOneCharacterAlone) {
  EXPECT_EQ(stripLeft("\n\n a", '\n'), " a");
  EXPECT_EQ(stripRight("a\n  ", ' '), "a\n");
}

} // namespace
} // namespace mebp::text
