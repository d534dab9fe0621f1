// SPDX-License-Identifier: Apache-2.0
//
// The tiny model with programs that generate text, written by hand.
#pragma once

#include "format/kernels.h"
#include "tiny_model.h"

namespace mebp::test {

// Positions of a prompt and its answer; rows of a step; how far attention looks back, and what is kept for it.
constexpr uint32_t tinyPositions = 100, tinyRows = 6, tinyWindow = 3, tinyRing = 64;
static_assert(tinyRing == format::keyTile);

// Its last three programs are `decode` of the embedding and of the layers, and `decode_logits`. A layer is
// y = x + W attention(rope(x)), with adapters that it leaves out.
format::Bundle generatingBundle();

// The same, where a layer is a convolution over the last tokens, which it carries.
format::Bundle recurrentBundle();

} // namespace mebp::test
