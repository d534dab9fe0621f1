// SPDX-License-Identifier: Apache-2.0
//
// Runs a program as a user does: its exit status, and what it prints.
#pragma once

#include <cstdio>
#include <string>

#include <sys/wait.h>

#include "support/tiny_model.h"

namespace mebp::test {

struct Outcome {
  int status = -1;
  std::string output, errors;
};

// `scratch`: an existing folder.
inline Outcome runCommand(const std::string &command, const std::string &scratch) {
  FILE *pipe = ::popen((command + " 2> " + scratch + "/errors").c_str(), "r");
  Outcome outcome;
  char buffer[512];
  while (size_t count = std::fread(buffer, 1, sizeof(buffer), pipe))
    outcome.output.append(buffer, count);
  int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.errors = readWhole(scratch + "/errors");
  return outcome;
}

} // namespace mebp::test
