// SPDX-License-Identifier: Apache-2.0
//
// All ops, by subject: what docs/ops.md is made of.
#ifndef MEBP_NN_OPS
#define MEBP_NN_OPS

include "dialects/nn/NNParameterOps.td"
include "dialects/nn/NNImportOps.td"
include "dialects/nn/NNEmbeddingOps.td"
include "dialects/nn/NNLinearOps.td"
include "dialects/nn/NNNormOps.td"
include "dialects/nn/NNAttentionOps.td"
include "dialects/nn/NNRecurrenceOps.td"
include "dialects/nn/NNActivationOps.td"
include "dialects/nn/NNArithmeticOps.td"
include "dialects/nn/NNExpertOps.td"
include "dialects/nn/NNHeadOps.td"

#endif
