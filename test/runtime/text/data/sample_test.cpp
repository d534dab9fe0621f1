// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/text/data/sample.h"

namespace mebp::text {
namespace {

Result<Sample> read(const std::string &line) {
  Result<JsonValue> entry = parseJsonValue(line);
  if (!entry.ok())
    return entry.status().in("f:1");
  return readSample(*entry, "f:1");
}

Sample sampleOf(const std::string &line) {
  Result<Sample> found = read(line);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? *found : Sample();
}

void expectRefusal(const std::string &line, const std::string &message) {
  SCOPED_TRACE(line);
  Result<Sample> found = read(line);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().message(), message);
}

std::string turns(const std::string &first) {
  return R"({"messages": [)" + first + R"(, {"role": "assistant", "content": "Yes."}]})";
}

TEST(Sample, HasOneOfThreeForms) {
  EXPECT_EQ(sampleOf(R"({"text": "A."})").text, "A.");
  const Sample completion = sampleOf(R"({"completion": "B.", "prompt": "A?"})");
  EXPECT_EQ(completion.prompt + "|" + completion.text, "A?|B.");
  const Sample chat = sampleOf(turns(R"({"role": "user", "content": [{"type": "text", "text": "A"},
                                                                      {"text": "?", "type": "text"}]})"));
  ASSERT_EQ(chat.turns.size(), 2u);
  EXPECT_EQ(chat.turns[0].role + "|" + chat.turns[0].content, "user|A?");
}

TEST(Sample, TakesMarksOfWhatIsNotLearned) {
  for (const char *mark : {R"("train": false)", R"("weight": 0)", R"("loss_mask": 0.0)", R"("loss": true, "label": 0)"})
    EXPECT_FALSE(sampleOf(R"({"text": "A.", )" + std::string(mark) + "}").isLearned) << mark;
  EXPECT_TRUE(sampleOf(R"({"text": "A.", "train": true, "weight": 1.0, "id": null})").isLearned);
  EXPECT_TRUE(sampleOf(R"({"text": "A.", "train": false, "train": true})").isLearned); // the last one counts
  const Sample masked = sampleOf(R"({"messages": [{"role": "assistant", "content": "A", "train": false},
                                                  {"role": "assistant", "content": "B"}]})");
  EXPECT_TRUE(masked.isLearned && !masked.turns[0].isLearned && masked.turns[1].isLearned);
  EXPECT_FALSE(sampleOf(R"({"messages": [{"role": "assistant", "content": "A", "weight": 0}]})").isLearned);
}

TEST(Sample, RefusesOtherFormsAndKeysByName) {
  const std::string wanted =
      R"(; give "text", "prompt" and "completion", or "messages", or train with mebp train, which )"
      "reads more";
  expectRefusal(R"({"instruction": "A", "output": "B"})", R"(f:1: has "instruction")" + wanted);
  expectRefusal(R"({"prompt": "A"})", R"(f:1: has "prompt")" + wanted);
  expectRefusal("{}", "f:1: is empty" + wanted);
  expectRefusal("[1]", "f:1: is a list; write one object a line");
  const std::string unread = ", which is not read without Python; leave it out, or train with mebp train";
  expectRefusal(R"({"text": "A", "id": 3})", R"(f:1: has "id")" + unread);
  expectRefusal(R"({"text": "A", "label": "good"})", R"(f:1: has "label")" + unread);
  expectRefusal(R"({"text": "A", "prompt": "A"})", R"(f:1: has "prompt")" + unread);
  expectRefusal(R"({"messages": [], "tools": []})", R"(f:1: has "tools")" + unread);
  expectRefusal(turns(R"({"role": "user", "content": "A", "name": "Ana"})"),
                R"(f:1: messages[0]: has "name")" + unread);
}

TEST(Sample, RefusesValuesByName) {
  expectRefusal(R"({"text": 1})", R"(f:1: "text" is a number; give a string)");
  expectRefusal(R"({"text": "a\u0000b"})", R"(f:1: "text" has the character U+0000, as no text has; leave it out)");
  expectRefusal(R"({"prompt": "A", "completion": ""})",
                R"(f:1: "completion" is empty, so there is nothing to learn; leave it out)");
  expectRefusal(R"({"prompt": [], "completion": "A"})", R"(f:1: "prompt" is a list; give a string)");
  expectRefusal(R"({"text": "A", "train": 0.5})", R"(f:1: "train" is 0.5; give 1 to learn it, or 0 to leave it out)");
  expectRefusal(R"({"text": "A", "weight": 2})",
                R"(f:1: "weight" is 2; give 1 to learn it, or 0 to leave it out; with )"
                "mebp train --turn-weights it multiplies");
  expectRefusal(R"({"messages": "A"})", R"(f:1: "messages" is a string; give a list of {"role", "content"})");
  expectRefusal(turns("1"), R"(f:1: messages[0] is a number; give {"role", "content"})");
  expectRefusal(turns(R"({"role": "user"})"), R"(f:1: messages[0] has no "content"; give {"role", "content"})");
  expectRefusal(turns(R"({"role": "human", "content": "A"})"),
                R"(f:1: messages[0] has the role "human"; choose one of system, developer, user, assistant, tool)");
  expectRefusal(turns(R"({"role": "user", "content": null})"), R"(f:1: messages[0]: "content" is null; give a string)");
  expectRefusal(turns(R"({"role": "user", "content": [1]})"),
                R"(f:1: messages[0]: content[0] is a number; give {"type": "text", "text": "..."})");
  expectRefusal(turns(R"({"role": "user", "content": [{"type": "image"}]})"),
                R"(f:1: messages[0]: content[0] is not {"type": "text", "text": "..."}; mebp trains on text alone)");
  expectRefusal(R"({"messages": [{"role": "user", "content": "A"}]})",
                "f:1: has no turn of the assistant, so there is nothing to learn; leave it out");
}

TEST(Sample, RefusesWhatIsNoJson) {
  expectRefusal("{\"text\": }", "f:1: is not JSON (column 10); write one object a line");
  expectRefusal("{\"text\": \"\\ud800\"}", "f:1: is not JSON (column 17); write one object a line");
  const std::string large = "f:1: is nested more than 32 deep, or has more than 262,144 values; make it smaller";
  expectRefusal("{\"text\": " + std::string(40, '[') + std::string(40, ']') + "}", large);
  std::string list = "{\"text\": [0";
  for (int i = 0; i < 1 << 18; ++i)
    list += ",0";
  expectRefusal(list + "]}", large);
}

} // namespace
} // namespace mebp::text
