// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/ChooseSchedule.h"

namespace mebp {

/// Prints what memory buys, from the lowest peak up: the points that are faster than the one before by a hundredth or
/// differ in whether they spill, and the fastest. `weights`: bytes of the mapped ones in memory.
void printFrontier(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier, uint64_t weights);

/// All of it as JSON, for programs; `weights`: of all that are mapped.
void printFrontierJson(llvm::raw_ostream &stream, llvm::ArrayRef<Choice> frontier, uint64_t weights);

} // namespace mebp
