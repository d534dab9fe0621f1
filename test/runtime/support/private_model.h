// SPDX-License-Identifier: Apache-2.0
//
// The tiny model with adapters B M A, whose programs give each other u and v.
#pragma once

#include "tiny_model.h"

namespace mebp::test {

constexpr uint32_t tinyDown = 2, tinyUp = 3; // inputs and outputs of M
constexpr uint64_t tinySeed = 5;             // of A and B

// embed; then layers y = x + W x + B M A x; then a head tied to the embedding.
format::Bundle privateBundle(uint64_t seed = tinySeed);

} // namespace mebp::test
