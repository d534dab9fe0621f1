// SPDX-License-Identifier: Apache-2.0
//
// What running a bundle would cost. A valid one may ask for days of work, which is no fault of its reader's.
#pragma once

#include "format/program.pb.h"

namespace mebp::fuzz {

// About the elements that the kernels of every program of every block touch, at the largest batch and sequence.
double workOf(const format::Bundle &bundle);

} // namespace mebp::fuzz
