// SPDX-License-Identifier: Apache-2.0
//
// A program in words and numbers: its counts, where its values lie, and its steps in their order.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "format/program.pb.h"

namespace mebp {

nlohmann::ordered_json describeProgram(const format::Program &program);

} // namespace mebp
