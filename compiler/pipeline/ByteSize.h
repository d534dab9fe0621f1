// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/byte_size.h"

#include <cstdint>
#include <string>

namespace mebp {

using format::parseByteSize;

/// "64.50 MB", in units of 10^6 bytes; rounded up, so that it is enough where somebody gives that much.
std::string formatMegabytes(uint64_t bytes);

} // namespace mebp
