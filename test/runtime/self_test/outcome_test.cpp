// SPDX-License-Identifier: Apache-2.0
#include "runtime/backends/self_test/outcome.h"

#include <gtest/gtest.h>

namespace mebp::test {

using self_test::Outcome;

static Outcome someOutcome() {
  Outcome outcome;
  outcome.routes.quantisedProducts = false;
  outcome.avoided = {"quantised products are wrong: \"so\""};
  outcome.wrong = {"one", "two"};
  outcome.missing = {"append"};
  outcome.kernels = {{"linear", {12, 6, 1e-7, 0.003}}, {"silu", {2, 1, 0, 0}}};
  outcome.seconds = 0.5;
  return outcome;
}

TEST(Outcome, ComesBackFromItsText) {
  const Outcome before = someOutcome();
  Outcome after;
  ASSERT_TRUE(fromJson(toJson(before, "this device"), "this device", after));
  EXPECT_EQ(after.routes.quantisedProducts, false);
  EXPECT_EQ(after.avoided, before.avoided);
  EXPECT_EQ(after.wrong, before.wrong);
  EXPECT_EQ(after.missing, before.missing);
  EXPECT_EQ(after.calls(), 14u);
  EXPECT_EQ(after.kernels["linear"].inBf16, 6u);
  EXPECT_EQ(after.kernels["linear"].f32, 1e-7);
  EXPECT_EQ(after.kernels["linear"].bf16, 0.003);
  EXPECT_EQ(after.seconds, 0.5);
}

TEST(Outcome, IsNotThatOfAnotherDevice) {
  Outcome after;
  EXPECT_FALSE(fromJson(toJson(someOutcome(), "this device"), "another", after));
}

// Every prefix, and every text with one of its bytes gone or changed, is taken or not, and never does harm.
TEST(Outcome, IsNotTakenFromDamagedText) {
  const std::string text = toJson(someOutcome(), "this device");
  Outcome after;
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(fromJson(text.substr(0, i), "this device", after)) << i;
    for (const char *other : {"", "0", "\"", "[", "{", "null"})
      fromJson(text.substr(0, i) + other + text.substr(i + 1), "this device", after);
  }
  for (const char *wrong :
       {"", "null", "[]", "{}", "7", "{\"version\": 1}", "{\"version\": 1, \"of\": \"this device\"}"})
    EXPECT_FALSE(fromJson(wrong, "this device", after)) << wrong;
}

// Its lines are shown, and a terminal obeys some of what a file may have.
TEST(Outcome, HasNothingThatATerminalObeys) {
  for (const char *odd : {"\033[2J", "\n", "\r", "\x7f", "\x01"}) {
    Outcome before = someOutcome(), after;
    before.wrong.push_back(std::string("matmul") + odd);
    EXPECT_FALSE(fromJson(toJson(before, "this device"), "this device", after));
  }
}

} // namespace mebp::test
