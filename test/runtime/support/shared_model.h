// SPDX-License-Identifier: Apache-2.0
//
// The tiny model with two layers, of which the second one reads what the first one makes of its input: the programs of
// a step, and those of generation.
#pragma once

#include "tiny_model.h"

namespace mebp::test {

format::Bundle sharingBundle();

} // namespace mebp::test
