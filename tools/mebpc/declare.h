// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "texts.h"

namespace CLI {
class App;
}

namespace mebp {

/// Every option of mebpc, in the groups that --help prints. What is parsed goes to `out`, or to `texts` first.
void declareOptions(CLI::App &app, Compilation &out, Texts &texts);

} // namespace mebp
