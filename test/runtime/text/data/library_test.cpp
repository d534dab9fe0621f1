// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <gtest/gtest.h>

#include "mebp/data.h"
#include "support/tiny_model.h"

namespace mebp::test {
namespace {

// Each byte is a token, and twice as many where `user` says so: then the first call has not the room.
mebp_code encode(void *user, const char *text, size_t bytes, int32_t *ids, size_t room, size_t *count,
                 mebp_error *error) {
  if (std::strcmp(text, "bad") == 0) {
    std::strcpy(error->message, "no token for this");
    return MEBP_UNSUPPORTED;
  }
  *count = user ? 4 * bytes : bytes;
  for (size_t i = 0; i < std::min(*count, room); ++i)
    ids[i] = static_cast<unsigned char>(text[i % bytes]);
  return MEBP_OK;
}

class DataTest : public testing::Test {
protected:
  void SetUp() override {
    mebp_token_source_init(&source);
    source.end_of_text = 1, source.end_of_sequence = 2;
    source.encode = encode;
    mebp_data_options_init(&options);
    options.length = 8;
  }
  mebp_code open(const std::string &content) {
    writeWhole(file, content);
    mebp_data_close(data);
    data = nullptr;
    return mebp_data_open(file.c_str(), &source, &options, &data, &error);
  }
  void TearDown() override { mebp_data_close(data); }

  std::string file = scratchPath();
  mebp_token_source source;
  mebp_data_options options;
  mebp_data *data = nullptr;
  mebp_error error = {};
};

TEST_F(DataTest, GivesTheRowsOfAStep) {
  ASSERT_EQ(open("{\"prompt\": \"ab\", \"completion\": \"c\"}\n{\"prompt\": \"d\", \"completion\": \"e\"}"), MEBP_OK);
  EXPECT_EQ(mebp_data_rows(data), 2u);
  EXPECT_FALSE(mebp_data_has_starts(data));
  EXPECT_EQ(mebp_data_note(data, 0), nullptr);
  std::vector<int32_t> ids(16), labels(16);
  uint32_t batch = 0, sequence = 0;
  ASSERT_EQ(mebp_data_step(data, 0, 2, ids.data(), labels.data(), nullptr, &batch, &sequence, &error), MEBP_OK);
  EXPECT_EQ(batch * 10 + sequence, 24u);
  const size_t longer = ids[0] == 'a' ? 0 : 4; // the order is the seed's
  ids.resize(8), labels.resize(8);
  const std::vector<int32_t> first(ids.begin() + longer, ids.begin() + longer + 4), one = {'a', 'b', 'c', 2};
  const std::vector<int32_t> other(labels.begin() + 4 - longer, labels.begin() + 8 - longer),
      two = {-100, 'e', 2, -100};
  EXPECT_EQ(first, one);
  EXPECT_EQ(other, two);
}

TEST_F(DataTest, MakesRoomForWhatIsLonger) {
  int more = 0;
  source.user = &more;
  ASSERT_EQ(open("{\"text\": \"abcd\"}"), MEBP_OK);
  EXPECT_EQ(mebp_data_rows(data), 2u); // 16 tokens and an end, of which the last alone predicts nothing
}

TEST_F(DataTest, ItsChecksumIsOfIdsAndLabels) {
  ASSERT_EQ(open("{\"prompt\": \"ab\", \"completion\": \"c\"}"), MEBP_OK);
  const uint32_t one = mebp_data_checksum(data);
  ASSERT_EQ(open("{\"prompt\": \"a\", \"completion\": \"bc\"}"), MEBP_OK);
  EXPECT_NE(mebp_data_checksum(data), one);
  ASSERT_EQ(open("\n{\"completion\": \"c\", \"prompt\": \"ab\"}\n"), MEBP_OK);
  EXPECT_EQ(mebp_data_checksum(data), one);
}

TEST_F(DataTest, RefusesInOneLine) {
  EXPECT_EQ(open("{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}"), MEBP_UNSUPPORTED);
  EXPECT_EQ(error.message, file + ":1: has \"messages\", and there is no chat template for them; give \"prompt\" and "
                                  "\"completion\"");
  EXPECT_EQ(open("{\"text\": \"bad\"}"), MEBP_UNSUPPORTED);
  EXPECT_EQ(error.message, file + ":1: no token for this");
  options.loss_on = "some";
  EXPECT_EQ(open("{\"text\": \"a\"}"), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "loss_on is 'some'; choose assistant, last, all or turns");
  options.loss_on = nullptr;
  options.length = 1;
  EXPECT_EQ(open("{\"text\": \"a\"}"), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "length is 1; give the tokens of a row, at least 2");
  options.length = 8;
  source.encode = nullptr;
  EXPECT_EQ(open("{\"text\": \"a\"}"), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "'source->encode' is NULL; give what mebp.h asks for");
  EXPECT_EQ(mebp_data_open(nullptr, &source, &options, &data, &error), MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "'path' is NULL; give what mebp.h asks for");
}

TEST_F(DataTest, AStepNeedsRoomAndRows) {
  options.shares_rows = true;
  ASSERT_EQ(open("{\"prompt\": \"ab\", \"completion\": \"c\"}"), MEBP_OK);
  ASSERT_TRUE(mebp_data_has_starts(data));
  std::vector<int32_t> ids(8), labels(8);
  uint32_t batch = 0, sequence = 0;
  EXPECT_EQ(mebp_data_step(data, 0, 1, ids.data(), labels.data(), nullptr, &batch, &sequence, &error),
            MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "'starts' is NULL; give what mebp.h asks for");
  EXPECT_EQ(mebp_data_step(data, 0, 0, ids.data(), labels.data(), ids.data(), &batch, &sequence, &error),
            MEBP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "rows is 0; give the rows of a step, at least 1");
}

} // namespace
} // namespace mebp::test
