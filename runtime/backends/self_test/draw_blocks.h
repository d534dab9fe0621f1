// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/storage.h"

namespace mebp::self_test {

// Whole blocks of any codes, with scales and minima of both signs that keep numbers below about 8.
void drawBlocks(format::Storage storage, unsigned char *data, uint64_t bytes, uint64_t stream);

} // namespace mebp::self_test
