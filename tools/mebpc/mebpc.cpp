// SPDX-License-Identifier: Apache-2.0
//
// mebpc: an ONNX model in, a bundle out.
#include "options.h"

#include "mebp/mebp.h"

// The runtime's own reader says whether it opens what was written.
static std::string checkBundle(const std::string &folder) {
  mebp_error error;
  mebp_bundle *bundle = nullptr;
  const bool isOpen = mebp_bundle_open(folder.c_str(), &bundle, &error) == MEBP_OK;
  mebp_bundle_close(bundle);
  return isOpen ? "" : error.message;
}

int main(int argc, char **argv) {
  mebp::Compilation compilation;
  if (std::optional<int> status = mebp::parseCommandLine(argc, argv, compilation))
    return *status;
  compilation.checkBundle = checkBundle;
  return mebp::compile(compilation);
}
