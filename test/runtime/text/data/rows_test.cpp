// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "byte_source.h"
#include "runtime/text/data/rows.h"
#include "support/tiny_model.h"

namespace mebp::text {
namespace {

using test::scratchPath;
using test::writeWhole;

class RowsTest : public testing::Test {
protected:
  Result<Tokens> tokens(const std::string &content, LossOn lossOn = LossOn::Assistant) {
    writeWhole(file, content);
    return readTokens(file, source, lossOn);
  }
  Rows rows(const std::string &content, const RowOptions &options, LossOn lossOn = LossOn::Assistant) {
    Result<Tokens> found = tokens(content, lossOn);
    EXPECT_TRUE(found.ok()) << found.status().message();
    Result<Rows> made = Rows::make(std::move(*found), options, "f", ByteSource::endOfText);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  void expectRefusal(const std::string &content, const std::string &message, LossOn lossOn = LossOn::Assistant) {
    Result<Tokens> found = tokens(content, lossOn);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().message(), file + message);
  }
  // The tokens that count, as bytes; marks as digits.
  static std::string counted(const Tokens &tokens) {
    std::string text;
    std::vector<int32_t> ids(tokens.store.size()), labels(ids);
    EXPECT_TRUE(tokens.store.read(0, ids.size(), ids.data(), labels.data()).ok());
    for (int32_t label : labels)
      if (label != ignoredLabel)
        text += label < 256 ? static_cast<char>(label) : static_cast<char>('0' + label - 256);
    return text;
  }

  ByteSource source;
  std::string file = scratchPath();
};

TEST_F(RowsTest, DocumentsAreOneTextWithEndsBetween) {
  Result<Tokens> found = tokens("{\"text\": \"ab\"}\n\n{\"text\": \"\"}\n{\"text\": \"c\"}");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(counted(*found), "0ab20c2");
  Rows made = rows("{\"text\": \"abcdef\"}", {3, true, 0});
  EXPECT_EQ(made.count(), 3u); // 8 tokens
  EXPECT_FALSE(made.haveStarts());
}

TEST_F(RowsTest, ACompletionCountsWithAnEnd) {
  Result<Tokens> found = tokens(R"({"prompt": "ab", "completion": "<think></think>cd"})");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(counted(*found), "cd1");
  EXPECT_EQ(counted(*tokens(R"({"prompt": "ab", "completion": "<think></think>cd"})", LossOn::All)), "0abcd1");
}

TEST_F(RowsTest, LossOnChoosesTurns) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
      {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";
  const std::string line = [&] {
    std::string one = chat;
    one.erase(std::remove(one.begin(), one.end(), '\n'), one.end());
    return one;
  }();
  EXPECT_EQ(counted(*tokens(line)), "b1d1");
  EXPECT_EQ(counted(*tokens(line, LossOn::Last)), "d1");
  EXPECT_EQ(counted(*tokens(line, LossOn::All)), "ua1ab1uc1ad1");
  Result<Tokens> each = tokens(line, LossOn::Turns);
  EXPECT_EQ(counted(*each), "b1d1");
  EXPECT_EQ(each->bounds.size(), 3u);
  const std::string masked = R"({"messages": [{"role": "assistant", "content": "b"},
      {"role": "assistant", "content": "d", "train": false}]})";
  std::string one = masked;
  one.erase(std::remove(one.begin(), one.end(), '\n'), one.end());
  EXPECT_EQ(counted(*tokens(one + "\n" + line, LossOn::Last)), "d1");
  EXPECT_EQ(tokens(one + "\n" + line, LossOn::Last)->leftOut, 1u);
}

TEST_F(RowsTest, RefusesByTheLine) {
  expectRefusal("", ": has no samples; give another file");
  expectRefusal("\n \n", ": has no samples; give another file");
  expectRefusal("{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}",
                ":2: has \"prompt\" and \"completion\" where " + file +
                    ":1 has \"text\"; use one form for all samples");
  expectRefusal("{\"text\": \"a\", \"train\": false}",
                ": every sample is marked as not to be learned; mark some with 1");
  expectRefusal(std::string("{\"text\": \"a\"}\n{\"text\": \"\0\"}", 27),
                ":2: has a NUL byte, as no text has; give text, or JSON lines");
  expectRefusal("{\"text\": \"\xff\"}", ":1: is not UTF-8; convert it");
  expectRefusal("hello", ":1: is not JSON (column 1); write one object a line");
  expectRefusal("{\"text\": \"a\"}", " has no answers: it is text, all of which counts; leave --loss-on out",
                LossOn::All);
  expectRefusal("{\"prompt\": \"a\", \"completion\": \"b\"}",
                " has no turns to choose from; give --loss-on all, or leave it out", LossOn::Last);
  Result<Tokens> missing = readTokens(file + ".none", source, LossOn::Assistant);
  EXPECT_EQ(missing.status().code(), MEBP_NOT_FOUND);
}

// Bytes of three good files are changed, left out and doubled: what is not read is refused in one line with the place.
TEST_F(RowsTest, MutantsAreReadOrRefusedInOneLine) {
  const std::string seeds[] = {
      "{\"text\": \"a \\u00e9\"}\n{\"text\": \"b\", \"train\": false}\n",
      "{\"prompt\": \"a\", \"completion\": \"<think></think>b\", \"weight\": 1}\n",
      "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, "
      "{\"role\": \"assistant\", \"content\": \"b\", \"loss\": 0}, {\"role\": \"assistant\", \"content\": \"c\"}]}\n"};
  const std::string signs = std::string("{}[]\",:\\u0\n\xff\xc3-e.tn ", 20) + '\0';
  std::mt19937 chance(7);
  int read = 0;
  for (int i = 0; i < 8000; ++i) {
    std::string mutant = seeds[i % 3];
    for (uint32_t changes = 1 + chance() % 3; changes > 0 && !mutant.empty(); --changes) {
      const size_t place = chance() % mutant.size(), length = 1 + chance() % 9;
      switch (chance() % 3) {
      case 0:
        mutant[place] = signs[chance() % signs.size()];
        break;
      case 1:
        mutant.erase(place, length);
        break;
      default:
        mutant.insert(chance() % mutant.size(), mutant.substr(place, length));
      }
    }
    Result<Tokens> found = tokens(mutant, static_cast<LossOn>(chance() % 4));
    read += found.ok();
    if (found.ok())
      continue;
    const std::string &message = found.status().message();
    EXPECT_EQ(message.compare(0, file.size(), file), 0) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_GT(read, 80);
}

TEST_F(RowsTest, LongLinesAreReadWhole) {
  const std::string long1(200000, 'x'), long2(65536 - 12, 'y');
  Result<Tokens> found = tokens("\xEF\xBB\xBF{\"text\": \"" + long1 + "\"}\r\n{\"text\": \"" + long2 + "\"}\n");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->store.size(), long1.size() + long2.size() + 4);
}

TEST_F(RowsTest, SharedRowsHaveEachSampleOnce) {
  std::string content;
  for (int i = 0; i < 50; ++i)
    content += "{\"prompt\": \"" + std::string(1 + i % 7, 'p') + "\", \"completion\": \"" + std::to_string(i) + "\"}\n";
  Rows made = rows(content, {20, true, 3});
  ASSERT_TRUE(made.haveStarts());
  std::vector<int32_t> ids(20), labels(20), starts(20);
  std::multiset<std::string> found;
  for (uint64_t row = 0; row < made.count(); ++row) {
    const uint32_t width = *made.write({row}, ids.data(), labels.data(), starts.data());
    ASSERT_LE(width, 20u);
    std::string answer;
    for (uint32_t i = 0; i < width; ++i) {
      EXPECT_LE(starts[i], static_cast<int32_t>(i));
      EXPECT_TRUE(starts[i] == static_cast<int32_t>(i) || starts[i] == starts[i - 1]);
      EXPECT_TRUE(starts[i] != static_cast<int32_t>(i) || labels[i] == -100);
      if (labels[i] == ByteSource::end)
        found.insert(std::exchange(answer, ""));
      else if (labels[i] != -100)
        answer += static_cast<char>(labels[i]);
    }
  }
  EXPECT_EQ(found.size(), 50u);
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(found.count(std::to_string(i)), 1u) << i;
}

TEST_F(RowsTest, EachEpochHasEachRowOnce) {
  Rows made = rows("{\"text\": \"abcdefghijklmnopqrstuvw\"}", {2, false, 5});
  ASSERT_EQ(made.count(), 12u); // of 25 tokens; the last one alone predicts nothing
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<uint64_t> seen;
    for (uint64_t step = 0; step < made.stepsPerEpoch(4); ++step)
      for (uint64_t row : made.ofStep(epoch * made.stepsPerEpoch(4) + step, 4))
        EXPECT_TRUE(seen.insert(row).second);
    EXPECT_EQ(seen.size(), made.count());
  }
}

TEST_F(RowsTest, SaysWhatWasCut) {
  Rows made = rows("{\"prompt\": \"abc\", \"completion\": \"de\"}\n{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}\n"
                   "{\"prompt\": \"a\", \"completion\": \"b\", \"train\": false}",
                   {6, false, 0});
  EXPECT_EQ(made.notes(),
            (std::vector<std::string>{"f: 2 of 2 samples were cut to 6 tokens",
                                      "f: 1 of 2 samples had no completion token within 6 tokens and were left out",
                                      "f: 1 of 3 samples are marked as not to be learned"}));
  const std::string turns =
      R"({"messages": [{"role": "assistant", "content": "b"}, {"role": "assistant", "content": "d"}]})";
  EXPECT_EQ(rows(turns, {9, false, 0}, LossOn::Turns).notes(),
            std::vector<std::string>{"f: 2 samples of 1 conversations, one for each turn of the assistant"});
  Result<Rows> none = Rows::make(std::move(*tokens("{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}")), {6, false, 0},
                                 "f", ByteSource::endOfText);
  EXPECT_EQ(none.status().message(), "f: no sample has a token of the completion within 6 tokens; shorten the prompts, "
                                     "or compile with a longer --seq-len");
  Result<Rows> little = Rows::make(std::move(*tokens("{\"text\": \"\"}")), {6, false, 0}, "f", ByteSource::endOfText);
  EXPECT_EQ(little.status().message(), "f: has too little text; training needs at least two tokens");
}

} // namespace
} // namespace mebp::text
