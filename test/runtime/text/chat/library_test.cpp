// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include "chat_file.h"
#include "mebp/chat.h"
#include "support/tiny_model.h"

namespace mebp::test {
namespace {

constexpr int32_t closing = 300;

class ChatTest : public testing::Test {
protected:
  void SetUp() override { open(text::chatFile()); }
  void open(const std::string &json) {
    mebp_chat_close(chat);
    chat = nullptr;
    ASSERT_EQ(mebp_chat_open_bytes(json.data(), json.size(), &chat, &error), MEBP_OK) << error.message;
  }
  void TearDown() override { mebp_chat_close(chat); }

  std::string textOf(const std::vector<mebp_data_turn> &turns) {
    std::string text(512, '.');
    size_t bytes = 0;
    EXPECT_EQ(mebp_chat_text(chat, turns.data(), static_cast<uint32_t>(turns.size()), false, text.data(), text.size(),
                             &bytes, &error),
              MEBP_OK)
        << error.message;
    return text.substr(0, bytes);
  }

  // What counts of the text, where each byte is a token, and each "[end]" one that closes.
  std::string counted(const std::vector<mebp_data_turn> &turns, bool everything = false) {
    const std::string text = textOf(turns), end = "[end]";
    std::vector<mebp_token> tokens;
    for (size_t i = 0; i < text.size(); i = tokens.back().end) {
      const bool isEnd = text.substr(i, end.size()) == end;
      tokens.push_back({isEnd ? closing : 1, i, i + (isEnd ? end.size() : 1)});
    }
    std::unique_ptr<bool[]> counts(new bool[tokens.size()]);
    EXPECT_EQ(mebp_chat_count(chat, turns.data(), static_cast<uint32_t>(turns.size()), everything, tokens.data(),
                              tokens.size(), counts.get(), &error),
              MEBP_OK)
        << error.message;
    std::string found;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (counts[i])
        found += text.substr(tokens[i].begin, tokens[i].end - tokens[i].begin);
    return found;
  }

  static mebp_data_turn turn(const char *role, const char *text, bool learned = true) {
    return {role, text, std::strlen(text), learned};
  }

  mebp_chat *chat = nullptr;
  mebp_error error = {};
};

TEST_F(ChatTest, CountsAnswersWithTheirEnds) {
  EXPECT_EQ(counted({turn("user", "a")}), "");
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "b"), turn("user", "c"), turn("assistant", "d")}),
            "b[end]d[end]");
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "b", false), turn("user", "c"), turn("assistant", "d")}),
            "d[end]");
}

TEST_F(ChatTest, CountsEverythingButAnswersThatAreNotLearned) {
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "b")}, true), "[begin][user]a[end]\n[answer]b[end]\n");
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "b", false)}, true), "[begin][user]a[end]\n[answer]\n");
}

TEST_F(ChatTest, LeavesOutThoughtsThatAreNotTheModels) {
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "<think>\n\n</think>\n\nb")}), "b[end]");
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "<think>\n</think>b")}, true),
            "[begin][user]a[end]\n[answer]b[end]\n");
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "<think>so</think>b")}), "so</think>b[end]");
}

TEST_F(ChatTest, CountsTheEndBehindAMark) {
  // A template that marks answers may write their end behind the mark.
  std::string json = text::chatFileWith(R"("end": "[end]", "after": ["\n"]})", R"("end": "", "after": ["[end]\n"]})");
  open(json);
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "b")}), "b");
  const std::string marked = "\"marked\": ";
  open(json.replace(json.find(marked + "false"), marked.size() + 5, marked + "true"));
  EXPECT_EQ(counted({turn("user", "a"), turn("assistant", "b")}), "b[end]");
}

TEST_F(ChatTest, SaysWhatEndsAnAnswer) {
  uint32_t count = 0;
  const int32_t *ends = mebp_chat_ends(chat, &count);
  EXPECT_EQ(std::vector<int32_t>(ends, ends + count), (std::vector<int32_t>{300, 301}));
}

TEST_F(ChatTest, SaysHowMuchRoomATextNeeds) {
  const mebp_data_turn user = turn("user", "a");
  size_t bytes = 0;
  char text[6] = "12345";
  ASSERT_EQ(mebp_chat_text(chat, &user, 1, false, text, 3, &bytes, &error), MEBP_OK);
  EXPECT_EQ(bytes, textOf({user}).size());
  EXPECT_STREQ(text, "[be45");
  ASSERT_EQ(mebp_chat_text(chat, &user, 1, false, nullptr, 0, &bytes, &error), MEBP_OK);
}

TEST_F(ChatTest, RefusesTokensOfAnotherText) {
  const mebp_data_turn user = turn("user", "a");
  const mebp_token token = {1, 0, 1000};
  bool counts = false;
  EXPECT_EQ(mebp_chat_count(chat, &user, 1, false, &token, 1, &counts, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "token 0 is of bytes 0 to 1000, and the text has 20; give tokens of mebp_chat_text's");
}

TEST_F(ChatTest, RefusesATurnWithoutARole) {
  const mebp_data_turn turn = {nullptr, "a", 1, true};
  size_t bytes = 0;
  EXPECT_EQ(mebp_chat_text(chat, &turn, 1, false, nullptr, 0, &bytes, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "'turns[].role' is NULL; give what mebp.h asks for");
}

TEST_F(ChatTest, OpensFolders) {
  const std::string folder = scratchPath();
  mebp_chat *opened = nullptr;
  EXPECT_EQ(mebp_chat_open(folder.c_str(), &opened, &error), MEBP_NOT_FOUND);
  EXPECT_EQ(error.message, folder + ": has no chat.json; mebp export writes it where the chat template comes in "
                                    "pieces, and says why where it does not");
  std::filesystem::create_directories(folder + "/tokenizer");
  writeWhole(folder + "/tokenizer/chat.json", text::chatFile());
  EXPECT_EQ(mebp_chat_open(folder.c_str(), &opened, &error), MEBP_OK) << error.message;
  mebp_chat_close(opened);
  opened = nullptr;
  EXPECT_EQ(mebp_chat_open((folder + "/tokenizer").c_str(), &opened, &error), MEBP_OK) << error.message;
  mebp_chat_close(opened);
  opened = nullptr;
  writeWhole(folder + "/tokenizer/chat.json", "{}");
  EXPECT_EQ(mebp_chat_open(folder.c_str(), &opened, &error), MEBP_CORRUPT);
  EXPECT_EQ(error.message, folder + "/tokenizer/chat.json: \"version\" is not what mebp export writes; export the "
                                    "model again");
}

} // namespace
} // namespace mebp::test
