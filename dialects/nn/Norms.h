// SPDX-License-Identifier: Apache-2.0
//
// Norms over the features of a row.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNNormOps.h.inc"
