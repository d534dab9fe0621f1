// SPDX-License-Identifier: Apache-2.0
//
// Weights and tables of a model, which have names, and what reads them.
#pragma once

#include "dialects/nn/NN.h"
#include "format/weight_format.h"

#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "dialects/nn/NNParameterOps.h.inc"
