// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace mebp {

/// Prices of memory (Passes.td), one for each choice of what layers keep that is the best at some price: from an
/// infinite one, at which nothing is kept, down to one at which all is that saves time. Any other choice takes more
/// seconds than some layers with one of these and the rest with the next, in the same memory. `moved`: seconds in which
/// a byte of every token is written to memory and read again.
std::vector<double> listKeepPrices(mlir::ModuleOp module, bool narrow, double moved);

} // namespace mebp
