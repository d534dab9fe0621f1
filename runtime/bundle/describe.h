// SPDX-License-Identifier: Apache-2.0
//
// A bundle in words and numbers, as JSON: for `mebp inspect` and other tools.
#pragma once

#include <string>

#include "format/program.pb.h"

namespace mebp {

std::string describeBundle(const format::Bundle &bundle);

} // namespace mebp
