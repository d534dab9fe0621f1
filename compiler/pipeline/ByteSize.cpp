// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ByteSize.h"

#include "llvm/Support/FormatVariadic.h"

namespace mebp {

std::string formatMegabytes(uint64_t bytes) {
  return llvm::formatv("{0:f2} MB", static_cast<double>(bytes) / 1e6).str();
}

} // namespace mebp
