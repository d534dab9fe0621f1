// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/Options.h"
#include "format/program.pb.h"

#include <functional>
#include <string_view>

namespace mebp {

/// One call of mebpc: what is compiled with which options, and what becomes of it.
struct Compilation {
  std::string input;                      // a model, or the text of a program, which has its own options
  std::string output;                     // may be empty where nothing is written
  std::optional<int64_t> batch, sequence; // empty: as exported
  std::optional<int64_t> generateLength;  // empty: the bundle does not generate text
  Options options;                        // but for the shape, which the above decide
  bool followsFile = false;               // weights are stored as the export advises; nobody chose otherwise
  bool choosesEmbeddings = false;         // whatever the matrices are stored as
  std::string budgetOption;               // "--memory-budget 64MiB": where the budget comes from; empty without one
  std::string budgetReason;               // why it is that much, where nobody gave a size
  bool findLongest = false;               // say how long a sequence trains in the budget, and stop
  bool showFrontier = false;              // say what each budget buys, and stop
  std::string rates;                      // a file; "none": estimates; empty: the default file, where it is there
  std::optional<Level> emit;              // print that level and stop
  bool planOnly = false;
  bool explainPeak = false;
  bool explainWire = false; // of a split model
  std::string planJson;     // a file
  // Why a runtime would not open the bundle in this folder; empty where it does. Asked before it gets its name.
  std::function<std::string(const std::string &folder)> checkBundle;
};

/// Whether a file is what --emit exec prints.
bool isProgramText(std::string_view path);

/// Compiles; prints the plan to standard output and errors, one line each, to standard error. Returns the exit status.
int compile(const Compilation &compilation);

} // namespace mebp
