// SPDX-License-Identifier: Apache-2.0
//
// Whether tokenizer/ of a bundle holds what mebpc copied there, by the checksums that the manifest has of it.
#pragma once

#include <string>

#include "runtime/core/status.h"

namespace mebp {

// Of the bundle in `folder`. A manifest from before these checksums has none, and then nothing is checked.
Status checkTokenizerFiles(const std::string &folder, const std::string &manifest);

} // namespace mebp
