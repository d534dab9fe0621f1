// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compiler/plan/Schedule.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mebp {

/// What mebpc was asked for. Defaults are those of its command line.
struct CompileOptions {
  std::string input;
  std::string output;                     // may be empty where nothing is written
  std::optional<int64_t> sequence, batch; // empty: as exported
  std::string precision = "bf16";
  std::string weights = "int4";
  std::string embeddingWeights; // empty: int8 beside quantised weights, else as they are
  int64_t loraRank = 8;
  double loraAlpha = 16.0;
  std::vector<std::string> loraTargets = {"all-linear"};
  uint64_t seed = 0;
  std::optional<uint64_t> randomWeights;
  std::string optimizer = "adamw";
  std::string maxSequenceFor; // "1GiB": say how long a sequence trains in that, and stop
  int64_t threads = 0;        // 0: this machine's
  std::string rates;          // a file; "none": estimates; empty: the default file, where it is there
  Schedule schedule;
  std::string spill;         // none, checkpoints or all; within a budget no more than that; empty: see Compile.cpp
  std::string memoryBudget;  // "64MiB": the schedule is chosen; empty: it is the one above
  std::string residentLimit; // "128MiB": of the mapped weights in memory
  bool planOnly = false;
  bool explainPeak = false;
  std::string planJson; // a file
  std::string emit;     // nn, train or exec: print that level and stop
};

/// Compiles; prints the plan to standard output and errors, one line each, to standard error. Returns the exit status.
int compile(const CompileOptions &options);

} // namespace mebp
