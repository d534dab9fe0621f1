// SPDX-License-Identifier: Apache-2.0
//
// The tiny model with adapters B M A, which generates text, and its two halves.
#pragma once

#include "generating_model.h"
#include "private_model.h"

namespace mebp::test {

constexpr uint64_t tinyPair = 77;

// privateBundle with programs that generate text as generatingBundle's do.
format::Bundle privateGeneratingBundle();
// The same, where a layer carries a convolution's last tokens in the place of attention.
format::Bundle privateRecurrentBundle();
// What one place has of it: the device its adapters, the embedding and the head, the server its layers.
format::Bundle halfOf(format::Bundle whole, format::Split::Place place);

} // namespace mebp::test
