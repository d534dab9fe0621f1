// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables: of tokens and of positions.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNEmbeddingOps.h.inc"
