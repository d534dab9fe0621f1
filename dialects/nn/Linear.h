// SPDX-License-Identifier: Apache-2.0
//
// Products with a weight, and the gradients of weight and bias.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNLinearOps.h.inc"
