// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions, attention within a sequence, and the keys and values that generation keeps.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNAttentionOps.h.inc"
