// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/program.pb.h"
#include "runtime/core/status.h"

namespace mebp {

// Why half a model computes nothing by itself.
Status noServer(const format::Bundle &bundle);

} // namespace mebp
