// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mebp {

// The decimal that the caller wrote: 0.999f is not 0.999, and torch computes with 0.999.
double decimalOf(float number);

} // namespace mebp
