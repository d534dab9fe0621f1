// SPDX-License-Identifier: Apache-2.0
//
// What a block's programs are for: which inputs and outputs each can have.
#pragma once

#include "format/program.pb.h"

namespace mebp {

constexpr int32_t noProgram = -1;

enum class ProgramUse { Forward, Backward, Objective, Loss, Logits };

constexpr ProgramUse allProgramUses[] = {ProgramUse::Forward, ProgramUse::Backward, ProgramUse::Objective,
                                         ProgramUse::Loss, ProgramUse::Logits};

const char *nameOf(ProgramUse use);

// Which of a block's programs gives its gradients: the head's objective, a backward of any other.
ProgramUse gradientUse(const format::Block &block);

// The number of the block's program for `use`, or noProgram.
int32_t programOf(const format::Block &block, ProgramUse use);

// Only the head has an objective, a loss and logits; only the others have a forward and a backward.
bool isPossible(ProgramUse use, const format::Block &block);
bool isRequired(ProgramUse use, const format::Block &block);
bool takes(ProgramUse use, const format::Block &block, format::Input::Role role);
bool gives(ProgramUse use, format::Output::Role role);
bool givesGradients(ProgramUse use); // backward and objective
format::Output::Role mainOutput(ProgramUse use);

} // namespace mebp
