// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "runtime/text/data/empty_thought.h"

namespace mebp::text {
namespace {

TEST(EmptyThought, EndsBehindTheSpaceThatFollows) {
  for (const std::string thought :
       {"<think></think>", "<think>\n\n</think>\n\n", "\n<THINK> </think>", "[THINK][/THINK]",
        "<|START_THINKING|><|END_THINKING|>", "\u25C1think\u25B7\u25C1/think\u25B7", "<seed:think></seed:think>",
        "<reasoning></reasoning>\t", "\u00a0<think>\x1c</think>\u0085\u3000"}) {
    SCOPED_TRACE(thought);
    EXPECT_EQ(endOfEmptyThought(thought + "Yes."), thought.size());
    EXPECT_EQ(endOfEmptyThought(thought), thought.size());
  }
}

TEST(EmptyThought, IsNoneWithAWordOrWithoutTags) {
  for (const char *text : {"", "Yes.", "<think>No.</think>", "<think>", "<b></b>", "think think", "<think></b>",
                           "          <think></think>", "<thinkabcdefghijklmnopqrstuvwxyz></think>", "<think</think>"})
    EXPECT_EQ(endOfEmptyThought(text), 0u) << text;
}

} // namespace
} // namespace mebp::text
