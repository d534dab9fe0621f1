// SPDX-License-Identifier: Apache-2.0
//
// What is carried from row to row.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNRecurrenceOps.h.inc"
