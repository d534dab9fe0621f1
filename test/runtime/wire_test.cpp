// SPDX-License-Identifier: Apache-2.0
#include "format/wire.h"

#include <gtest/gtest.h>

#include "format/random.h"
#include "support/tiny_model.h"

using namespace mebp;
using namespace mebp::test;
using format::Parsed;
using format::parseMessage;

namespace {

std::string repeated(const std::string &field, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i)
    bytes += field;
  return bytes;
}

TEST(Wire, GivesWhatWasWritten) {
  const std::string bytes = tinyBundle({}).SerializeAsString();
  format::Bundle bundle;
  EXPECT_EQ(parseMessage(bytes, bundle), Parsed::Yes);
  EXPECT_EQ(bundle.SerializeAsString(), bytes);
}

TEST(Wire, MakesNoObjectsOfAFileOfEmptyMessages) {
  format::Bundle bundle;
  *bundle.add_weights() = format::Weight();
  const std::string empty = bundle.SerializeAsString();
  ASSERT_EQ(empty.size(), 2u);
  bundle.Clear();
  EXPECT_EQ(parseMessage(repeated(empty, 4'000'000), bundle), Parsed::TooLarge);
  EXPECT_EQ(bundle.weights_size(), 0);
  EXPECT_EQ(parseMessage(repeated(empty, 1000), bundle), Parsed::Yes);
  EXPECT_EQ(bundle.weights_size(), 1000);
}

TEST(Wire, SaysNothingOfNamesThatAreNotUtf8) {
  std::string bytes = tinyBundle({}).SerializeAsString();
  bytes[bytes.find("layer.forward")] = '\xff';
  format::Bundle bundle;
  testing::internal::CaptureStderr();
  EXPECT_EQ(parseMessage(bytes, bundle), Parsed::No);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Wire, TakesAnyBytes) {
  std::string bytes = tinyBundle({}).SerializeAsString();
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    std::string changed = bytes.substr(0, format::randomBits(trial, 0, 0) % bytes.size());
    for (uint64_t i = 1; i < 4 && !changed.empty(); ++i)
      changed[format::randomBits(trial, 0, i) % changed.size()] =
          static_cast<char>(format::randomBits(trial, 1, i) >> 40);
    format::Bundle bundle;
    parseMessage(changed, bundle);
  }
}

} // namespace
