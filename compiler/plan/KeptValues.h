// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/facts.h"

namespace mebp {

/// Which values layers keep for their backward (KEPT ports), for people: "of 3 layers: mlp.gate_proj, mlp.up_proj; of
/// 21: mlp.up_proj"; empty where no layer keeps any.
std::string describeKeptValues(const layout::Facts &facts);

} // namespace mebp
