// SPDX-License-Identifier: Apache-2.0
//
// The head's log-probabilities, and the kernels that they become.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNHeadOps.h.inc"
