// SPDX-License-Identifier: Apache-2.0
//
// A file of token ids, as mebp-run reads them: .npy where it begins so, else .bin.
#include "tools/mebp-run/tokens.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr uint32_t longest = 64;
  static const std::string folder = mebp::fuzz::scratchFolder();
  const bool isNumpy = size && data[0] == 0x93;
  const std::string path = folder + (isNumpy ? "/tokens.npy" : "/tokens.bin");
  mebp::fuzz::writeFile(path, data, size);
  for (uint32_t sequence : {0u, 5u, longest}) {
    mebp::fuzz::AllocationLimit limit(size);
    TokenFile tokens;
    if (!tokens.open(path, sequence, longest).empty())
      continue;
    StepRows rows;
    for (uint64_t row = 0; row < tokens.rows(); ++row)
      tokens.read(row, 1, rows);
    tokens.checksum();
  }
  return 0;
}
