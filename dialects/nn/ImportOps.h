// SPDX-License-Identifier: Apache-2.0
//
// What only the import knows: nodes of ONNX, constants, masks and tables of positions.
#pragma once

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNImportOps.h.inc"
