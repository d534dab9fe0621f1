// SPDX-License-Identifier: Apache-2.0
//
// The attributes of docs/kernels.md, as kernels take them.
#pragma once

#include <cstdint>
#include <limits>

#include "format/activations.h"
#include "format/scores.h"

namespace mebp {

using format::Activation;
using format::Score;

// Every attribute that a kernel may have, read once when the program is loaded.
struct Attributes {
  float alpha = 1.0f;
  float lowAlpha = 1.0f;
  float beta = 0.0f;
  float epsilon = 0.0f;
  float weightOffset = 0.0f;
  float scale = 1.0f;
  float value = 0.0f;
  int32_t headDim = 0;
  int32_t heads = 0;
  int32_t kvHeads = 0;
  int32_t window = 0;
  int32_t capacity = 0; // of a state, for each batch item; 0: none
  int32_t items = 0;    // that a carried state is of, side by side; 0: of the one that the rows are of
  int32_t offset = 0;
  int32_t groups = 1;
  int32_t topGroups = 0; // 0: all
  int32_t bestOfGroup = 1;
  float threshold = 0.0f;
  float softcap = 0.0f; // 0: none
  float p = 0.0f;       // of dropout, the share that is zeroed
  int32_t salt = 0;     // of dropout, which one of its block's it is
  float shift = -0.0f;  // added to a number, it changes not even the sign of a zero
  float lower = -std::numeric_limits<float>::infinity(), upper = std::numeric_limits<float>::infinity();
  bool inverse = false;
  bool interleaved = false;
  bool narrow = false;
  bool normalized = false;
  Score score = Score::Softmax;
  Activation activation = Activation::Silu; // of a gate, or the kernel itself
  const float *frequencies = nullptr;
  int32_t frequencyCount = 0;
  const float *slopes = nullptr; // of attention, one for each head, by which scores fall with distance
  int32_t slopeCount = 0;
};

} // namespace mebp
