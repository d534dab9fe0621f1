// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "texts.h"

namespace CLI {
class App;
}

// What a command line cannot ask for. Each throws OptionError.
namespace mebp {

/// Options that would be ignored beside the others, or that contradict them.
void refuseIgnored(const CLI::App &app, const Texts &texts, const Options &options);

/// Numbers that cannot be, whatever the model.
void refuseValues(const Options &options);

/// A program's text, as --emit exec printed it, has been made with its options; what is left to say is what becomes of
/// it.
void refuseChoices(const CLI::App &app, const std::string &text);

} // namespace mebp
