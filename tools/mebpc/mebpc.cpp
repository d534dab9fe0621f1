// SPDX-License-Identifier: Apache-2.0
//
// mebpc: an ONNX model in, a bundle out.
#include "options.h"

int main(int argc, char **argv) {
  mebp::Compilation compilation;
  if (std::optional<int> status = mebp::parseCommandLine(argc, argv, compilation))
    return *status;
  return mebp::compile(compilation);
}
