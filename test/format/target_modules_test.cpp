// SPDX-License-Identifier: Apache-2.0
#include "format/target_modules.h"

#include <gtest/gtest.h>
#include <regex>

namespace mebp::format {

using Names = std::vector<std::string>;

TEST(TargetModules, AreReadAsTheyAreWritten) {
  for (const char *part : {"model", "model.language_model", "language_model", "a.b.c_1"})
    for (const Names &names : {Names{"q_proj"}, Names{"q_proj", "k_proj", "lm_head"}, Names{"w1", "w_2", "W3"}})
      EXPECT_EQ(namesOfTargetPattern(targetPattern(part, names)), names) << targetPattern(part, names);
}

// As PEFT matches: the whole name of a layer.
TEST(TargetModules, AreOfThePartAlone) {
  const std::regex pattern(targetPattern("model.language_model", {"q_proj", "lm_head"}));
  auto matches = [&](const char *layer) { return std::regex_match(layer, pattern); };
  EXPECT_TRUE(matches("model.language_model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(matches("model.language_model.q_proj"));
  EXPECT_TRUE(matches("lm_head"));
  EXPECT_FALSE(matches("model.vision_tower.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(matches("model.language_models.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(matches("model.language_model.layers.0.self_attn.my_q_proj"));
}

TEST(TargetModules, HaveNoOtherForm) {
  const std::string right = targetPattern("model.text", {"a", "b"});
  for (size_t i = 0; i < right.size(); ++i) {
    EXPECT_FALSE(namesOfTargetPattern(right.substr(0, i))) << i;
    for (char other : {'*', '+', '(', ')', '\\', '.', '[', '|', ' ', '\n'}) {
      std::string changed = right;
      changed[i] = other;
      const auto found = namesOfTargetPattern(changed);
      EXPECT_TRUE(!found || targetPattern("model.text", *found) == changed) << changed;
    }
  }
  for (const char *text : {"", ")", "(?:", "q_proj", ".*q_proj", "(a+)+", "(?:model\\.(?:.+\\.)?)?(?:)"})
    EXPECT_FALSE(namesOfTargetPattern(text)) << text;
}

} // namespace mebp::format
