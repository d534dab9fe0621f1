// SPDX-License-Identifier: Apache-2.0
//
// What a router of experts makes of its logits: the values of `score` of `route` (docs/kernels.md has their formulas).
#pragma once

#include <cstdint>

#include "format/tables.h"

namespace mebp::format {

enum class Score : uint8_t { Softmax, Sigmoid, SoftmaxOfChosen, SoftmaxOfNear };

struct ScoreTraits {
  const char *name;
  Score score;
};
inline constexpr ScoreTraits scores[] = {{"softmax", Score::Softmax},
                                         {"sigmoid", Score::Sigmoid},
                                         {"softmax_of_chosen", Score::SoftmaxOfChosen},
                                         {"softmax_of_near", Score::SoftmaxOfNear}};

constexpr const ScoreTraits *findScore(std::string_view name) { return findByName(scores, name); }

} // namespace mebp::format
