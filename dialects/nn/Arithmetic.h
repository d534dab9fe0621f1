// SPDX-License-Identifier: Apache-2.0
//
// Sums, products and parts of rows.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNArithmeticOps.h.inc"
