// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ByteSize.h"

#include "llvm/Support/FormatVariadic.h"

namespace mebp {

std::string formatMegabytes(uint64_t bytes) {
  uint64_t hundredths = (bytes + 9999) / 10000;
  return llvm::formatv("{0}.{1:d2} MB", hundredths / 100, hundredths % 100).str();
}

} // namespace mebp
