// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/ChooseSchedule.h"

namespace mebp {

/// Prints what memory buys, from the lowest peak up: the points that are faster than the one before by a hundredth, and
/// the fastest.
void printFrontier(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier);

/// All of it as JSON, for programs.
void printFrontierJson(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier);

} // namespace mebp
