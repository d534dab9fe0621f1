// SPDX-License-Identifier: Apache-2.0
//
// Messages are one line of valid UTF-8 without a terminal's commands, whatever others' words they hold and wherever
// they are cut.
#include "runtime/core/status.h"

#include <filesystem>
#include <random>
#include <string>

#include "format/readable.h"
#include "mebp/mebp.h"
#include "gtest/gtest.h"

namespace mebp {
namespace {

using format::cutText;
using format::isUtf8;
using format::readable;

TEST(Readable, ShowsWhatATerminalWouldObey) {
  struct Case {
    std::string_view text, line;
  };
  const Case cases[] = {
      {"", ""},
      {"plain, \\ and \"quoted\"", "plain, \\ and \"quoted\""},
      {"two\nlines\r\n and\ta tab", "two lines   and a tab"},
      {"\x1b[31mred\x1b]0;title\x07\x7f", "\\x1b[31mred\\x1b]0;title\\x07\\x7f"},
      {std::string_view("zero\0end", 8), "zero\\x00end"},
      {"\xc2\x80 \xc2\x9b \xc2\xa0", "\\xc2\\x80 \\xc2\\x9b \xc2\xa0"}, // U+009B begins a command, too
      {"\xe2\x80\xa8 \xe2\x80\xae \xe2\x80\xaf",
       "\\xe2\\x80\\xa8 \\xe2\\x80\\xae \xe2\x80\xaf"}, // another line; right to left
      {"\xe2\x81\xa6 \xe2\x80\x8e \xd8\x9c", "\\xe2\\x81\\xa6 \\xe2\\x80\\x8e \\xd8\\x9c"},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xff\xc0\x80\xe2\x82", "\\xff\\xc0\\x80\\xe2\\x82"},
      {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"}, // half of a pair, and beyond the last
  };
  for (const Case &each : cases) {
    EXPECT_EQ(readable(each.text), each.line);
    EXPECT_EQ(readable(each.line), each.line);
  }
}

TEST(Readable, IsUtf8WhateverTheBytesAre) {
  std::mt19937 random(5);
  for (int round = 0; round < 2'000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char &byte : bytes)
      byte = static_cast<char>(random() % 3 ? 0x80 + random() % 128 : random());
    const std::string line = readable(bytes);
    ASSERT_TRUE(isUtf8(line));
    for (char letter : line)
      ASSERT_TRUE(static_cast<unsigned char>(letter) >= ' ' && letter != 0x7F);
    ASSERT_EQ(readable(line), line);
    for (size_t most = 0; most <= line.size(); ++most) {
      const std::string_view cut = cutText(line, most);
      ASSERT_TRUE(isUtf8(cut) && cut.size() <= most && cut.size() + 4 > most);
      ASSERT_EQ(cut, line.substr(0, cut.size()));
    }
  }
}

// Each character's bytes at every place where a message may be cut: that of a line, and that of mebp_error.
TEST(StatusText, IsCutBetweenCharacters) {
  for (const std::string character : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    for (size_t before = 0; before < 4; ++before) {
      std::string text(before, 'x');
      while (text.size() < 1'200)
        text += character;
      mebp_error error = {};
      for (const Status &status : {Status(MEBP_IO, text), failure(MEBP_IO, "%s", text.c_str())}) {
        EXPECT_TRUE(isUtf8(status.message()));
        EXPECT_EQ(status.message(), text.substr(0, status.message().size()));
        EXPECT_EQ(report(status, &error), MEBP_IO);
        EXPECT_TRUE(isUtf8(error.message)) << error.message;
        EXPECT_GT(std::string(error.message).size() + character.size(), sizeof(error.message) - 1);
      }
      EXPECT_TRUE(isUtf8(textOf("%s", text.c_str())));
    }
}

TEST(StatusText, ShowsOthersWords) {
  const std::string words = "a\x1b[2Jb\xff\nc", shown = "a\\x1b[2Jb\\xff c";
  EXPECT_EQ(Status(MEBP_IO, words).message(), shown);
  EXPECT_EQ(failure(MEBP_IO, "%s", words.c_str()).message(), shown);
  EXPECT_EQ(failure(MEBP_IO, "it").in(words).message(), shown + ": it");
  EXPECT_EQ(textOf("%s", words.c_str()), shown);
}

TEST(StatusText, OfTheCLibraryShowsTheNameOfAFile) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  mebp_error error = {};
  mebp_bundle *bundle = nullptr;
  EXPECT_EQ(mebp_bundle_open((folder + "/\x1b[31m\xff.mebp").c_str(), &bundle, &error), MEBP_NOT_FOUND);
  EXPECT_EQ(std::string(error.message), "no bundle at " + folder + "/\\x1b[31m\\xff.mebp; make one with mebpc");
  for (size_t more = 0; more < 4; ++more) {
    std::string name = folder + "/" + std::string(more, 'x');
    while (name.size() < 700)
      name += "\xe2\x82\xac\xf0\x9f\x98\x80/";
    EXPECT_NE(mebp_bundle_open(name.c_str(), &bundle, &error), MEBP_OK);
    EXPECT_TRUE(isUtf8(error.message)) << error.message;
  }
}

} // namespace
} // namespace mebp
