// SPDX-License-Identifier: Apache-2.0
//
// What the C API's opaque bundle is.
#pragma once

#include "runtime/bundle/bundle.h"

struct mebp_bundle {
  mebp::Bundle bundle;
};
