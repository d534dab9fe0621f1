// SPDX-License-Identifier: Apache-2.0
//
// A thought without a word, with the line breaks around it, as templates write it where a model is to answer at once:
// <think>, </think>. It is not learned.
#pragma once

#include <cstddef>
#include <string_view>

namespace mebp::text {

// Where a text goes on that begins with one; 0 where it does not.
size_t endOfEmptyThought(std::string_view text);

} // namespace mebp::text
