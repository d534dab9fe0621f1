// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace mebp {

/// Reads "64MiB" (B, KB, MB, GB, KiB, MiB, GiB; fractions allowed) into `bytes`. Returns what is wrong and what to
/// write instead, or nothing.
std::string parseByteSize(llvm::StringRef text, uint64_t &bytes);

/// "64.50 MB", in units of 10^6 bytes.
std::string formatMegabytes(uint64_t bytes);

} // namespace mebp
