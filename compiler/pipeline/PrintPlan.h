// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/program.pb.h"
#include "llvm/Support/raw_ostream.h"

namespace mebp {

/// The plan as a table for people; `explain` adds what is alive at the peak.
void printPlan(llvm::raw_ostream &stream, const format::Bundle &bundle, bool explain);

/// The same for programs.
void printPlanJson(llvm::raw_ostream &stream, const format::Bundle &bundle);

} // namespace mebp
