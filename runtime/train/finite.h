// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "runtime/core/status.h"

namespace mebp {

// Refuses NaN and infinity, before any parameter has changed.
inline Status checkFinite(const char *name, double value) {
  if (std::isfinite(value))
    return Status();
  // Of a NaN, the sign means nothing.
  return failure(MEBP_NOT_FINITE, "the %s is %g; the parameters were not changed, a lower learning rate may help", name,
                 std::isnan(value) ? std::fabs(value) : value);
}

} // namespace mebp
