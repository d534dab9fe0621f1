// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/grpc_connection.h"

// An option of a session, as it is written; nothing where it is not given.
struct SessionText {
  std::string name, text; // the name of mebp_session_options_set
  bool isOn = false;      // of one that is on or off
};

struct RunOptions {
  std::string bundle, tokens, data, lossOn, adapterFolder, stateFolder;
  mebp::net::GrpcEndpoint server; // its address empty: no server
  double retrySeconds = 60;
  uint64_t steps = 0; // 0: every row once
  uint64_t saveEvery = 50;
  std::vector<SessionText> ofSession; // what the bundle has not: the optimizer, and its own options
  uint32_t sequence = 0;
  bool resume = false, overwrite = false, json = false;
};

// -1: go on; otherwise the exit status, after the message was printed.
int parseOptions(int argc, char **argv, RunOptions &out);
