// SPDX-License-Identifier: Apache-2.0
#include "format/byte_size.h"

#include <gtest/gtest.h>

using namespace mebp::format;

namespace {

TEST(ByteSize, HasNoRestOfItsDecimal) {
  for (uint64_t tenths = 1; tenths <= 20'000; ++tenths) {
    const std::string text = std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "MB";
    uint64_t bytes = 0;
    ASSERT_EQ(parseByteSize(text, bytes), "") << text;
    ASSERT_EQ(bytes, tenths * 100'000) << text;
  }
}

TEST(ByteSize, IsReadBackFromWhatIsPrinted) {
  for (uint64_t bytes = 1; bytes < 5'000'000'000; bytes += bytes / 7 + 1) {
    uint64_t found = 0;
    ASSERT_EQ(parseByteSize(formatMegabytes(bytes), found), "");
    ASSERT_GE(found, bytes);
    ASSERT_LT(found, bytes + 10'000);
  }
}

TEST(ByteSize, RefusesWhatIsNone) {
  uint64_t bytes = 0;
  for (const char *text : {"", "MB", ".", "1.2.3MB", "-1MB", "12", "12Mb", "0MB", "0.4B", "2000000000GB"})
    EXPECT_NE(parseByteSize(text, bytes), "") << text;
  EXPECT_NE(parseByteSize(std::string(400, '9') + "B", bytes), "");
  EXPECT_NE(parseByteSize("0." + std::string(400, '9') + "B", bytes), "");
}

} // namespace
