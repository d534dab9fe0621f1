// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/program.pb.h"

#include "llvm/Support/raw_ostream.h"

namespace mebp {

/// Prints what passes between the halves of a split model, as --explain-wire asks, from the device's.
void printWire(llvm::raw_ostream &stream, const format::Bundle &device);

} // namespace mebp
