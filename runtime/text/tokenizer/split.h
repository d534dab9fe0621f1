// SPDX-License-Identifier: Apache-2.0
//
// Cuts pieces where something matches.
#pragma once

#include <functional>
#include <string>

#include "runtime/text/patterns/pattern.h"
#include "runtime/text/tokenizer/pieces.h"

namespace mebp::text {

// What becomes of a match: it goes, stands alone, joins a neighbour, or joins matches beside it.
enum class Behavior { removed, isolated, mergedWithPrevious, mergedWithNext, contiguous };
bool readBehavior(std::string name, Behavior &out);

Status splitAt(Pieces &pieces, const Pattern &pattern, Behavior behavior, bool isInverted);
// Each character of a kind is a match.
void splitAt(Pieces &pieces, bool (*isMatch)(char32_t), Behavior behavior);

} // namespace mebp::text
