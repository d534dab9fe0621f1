// SPDX-License-Identifier: Apache-2.0
//
// What each half of the tests' tiny split model sends for a gradient and then for text of three tokens and one.
#pragma once

#include "frames.h"

namespace mebp::fuzz {

Sent framesOfDevice();
// The stream ends once, and goes on.
Sent framesOfServer();

} // namespace mebp::fuzz
