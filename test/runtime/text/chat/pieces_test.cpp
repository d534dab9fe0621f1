// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "chat_file.h"
#include "runtime/text/chat/pieces.h"

namespace mebp::text {
namespace {

using Turns = std::vector<Turn>;

ChatPieces pieces() {
  Result<ChatPieces> read = ChatPieces::read(chatFile());
  EXPECT_TRUE(read.ok()) << read.status().message();
  return *read;
}

std::string compose(const Turns &turns, bool isPrompt = false) {
  Result<Composed> made = pieces().compose(turns, isPrompt);
  if (!made.ok())
    return "refused: " + made.status().message();
  std::string text = made->text;
  for (auto answer = made->answers.rbegin(); answer != made->answers.rend(); ++answer)
    text.insert(answer->end, ">").insert(answer->begin, "<");
  return text;
}

TEST(ChatPieces, StandAroundTurns) {
  EXPECT_EQ(compose({{"user", " \u00a0a\n"}}), "[begin][user]a[end]\n");
  EXPECT_EQ(compose({{"user", "a"}, {"assistant", " b\n\n"}, {"user", " c "}, {"assistant", ""}}),
            "[begin][user]a[end]\n[answer]< b[end]>\n\n[user]c [end]\n[answer]<[end]>\n");
  EXPECT_EQ(compose({{"system", " s "}, {"user", "a"}, {"assistant", "b"}}),
            "[begin][system] s[end]\n[user]a[end]\n[answer]<b[end]>\n");
  EXPECT_EQ(compose({{"system", "  "}, {"user", "a"}}), "[begin][user]a[end]\n");
}

TEST(ChatPieces, MakePrompts) {
  EXPECT_EQ(compose({{"user", " a"}}, true), "[user] a[end]\n[answer]");
  EXPECT_EQ(compose({{"user", "a"}, {"assistant", "b"}, {"user", "c"}}, true),
            "[begin][user]a[end]\n[answer]<b[end]>\n[user]c[end]\n[answer]");
}

TEST(ChatPieces, RefuseOtherConversations) {
  const auto expect = [](const Turns &turns, const std::string &message, bool isPrompt = false) {
    EXPECT_EQ(compose(turns, isPrompt), "refused: " + message);
  };
  const Turn user = {"user", "a"}, answer = {"assistant", "b"}, system = {"system", "s"};
  expect({user, {"tool", "7"}}, "turn 1 has the role \"tool\"; chat.json has system, user and assistant");
  expect({user, answer, system}, "turn 2 is the system's; give the user's, which is next");
  expect({answer}, "turn 0 is the assistant's; give the user's, which is next");
  expect({system, user, user}, "turn 2 is the user's; give the assistant's, which is next");
  expect({}, "the conversation has no turn of the user; give one");
  expect({system}, "the conversation has no turn of the user; give one");
  expect({user, answer}, "turn 1 is the assistant's; end a prompt with the user's", true);
  expect({{"user", std::string("a\0b", 3)}}, "turn 0 has a NUL; leave it out");
  expect({{"user", "a\xff"}}, "turn 0 is not UTF-8; convert it");
  expect({{"user", " \n"}}, "turn 0 has no word, which the chat template writes otherwise; leave the turn out");
  expect({user, {"assistant", "x[cut]y"}},
         "turn 1 has \"[cut]\", which the chat template reads as its own; leave it out");
  expect({system, user}, "turn 1 is one that the chat template refuses after a system's turn; leave that out", true);
}

TEST(ChatPieces, RefuseOtherFiles) {
  const auto expect = [](const std::string &found, const std::string &replaced, const std::string &message) {
    Result<ChatPieces> read = ChatPieces::read(chatFileWith(found, replaced));
    ASSERT_FALSE(read.ok()) << found;
    EXPECT_EQ(read.status().message(), message);
  };
  const auto expectDamaged = [&](const std::string &found, const std::string &replaced, const std::string &key) {
    expect(found, replaced, "\"" + key + "\" is not what mebp export writes; export the model again");
  };
  expect("{", "[", "is not JSON, or too large; export the model again");
  expect("\"version\": 1", "\"version\": 2", "has version 2, and this library reads 1; use a newer library");
  expectDamaged("\"version\"", "\"other\"", "version");
  expectDamaged("\"pieces\"", "\"other\"", "pieces");
  expectDamaged("\"white space\"", "\"tabs\"", "pieces");
  expectDamaged("\"within\"", "\"other\"", "pieces");
  expectDamaged("[\"[answer]\"]", "[1]", "pieces");
  expectDamaged("[[0, 0, 0]", "[[5, 0, 0]", "forms");
  expectDamaged("[[0, 0, 0]", "[[0, 0]", "forms");
  expectDamaged("\"prompt\"", "\"other\"", "forms");
  expectDamaged("\"assistant\": [\"[cut]\"]", "\"tool\": []", "refused");
  expectDamaged("\"skips_empty_system\"", "\"other\"", "skips_empty_system");
  expectDamaged("\"marked\": false", "\"marked\": 0", "marked");
  expectDamaged("[300, 301]", "[301, 300]", "stop");
  expectDamaged("[300, 301, 302]", "[300.5]", "closing");
  expectDamaged("\"thought\": \"<think>\"", "\"thought\": null", "thought");
}

} // namespace
} // namespace mebp::text
