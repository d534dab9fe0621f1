// SPDX-License-Identifier: Apache-2.0
//
// Mixtures of experts. A token has J slots, one for each expert that it is sent to. What a slot has lies in the token's
// own row, slot after slot: so every value has a row for each token, and no size depends on which experts are chosen.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNExpertOps.h.inc"
