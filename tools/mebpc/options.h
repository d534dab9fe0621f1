// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/pipeline/Compile.h"

namespace mebp {

/// Reads the command line. Where there is nothing to compile, it has printed help or what is wrong, and returns the
/// exit status.
std::optional<int> parseCommandLine(int argc, char **argv, Compilation &out);

} // namespace mebp
