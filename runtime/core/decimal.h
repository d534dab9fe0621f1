// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace mebp {

// The decimal that the caller wrote: 0.999f is not 0.999, and torch computes with 0.999.
double decimalOf(float number);

// Reads a number that a person wrote, with a point in every locale; false where the text is anything else.
bool readDecimal(const std::string &text, double &number);

} // namespace mebp
