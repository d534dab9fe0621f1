// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/net/grpc_connection.h"

struct RunOptions {
  std::string bundle, tokens, adapterFolder, stateFolder, spillFolder, traceFile;
  std::string optimizer; // empty: the bundle's
  std::string device = "cpu";
  mebp::net::GrpcEndpoint server; // its address empty: no server
  double retrySeconds = 60;
  uint64_t steps = 0; // 0: every row once
  uint64_t saveEvery = 50;
  uint64_t residentLimit = 0; // bytes; 0: none
  double learningRate = 2e-4, weightDecay = 0;
  std::vector<std::pair<std::string, std::string>> ofOptimizer; // its own options' names and texts; empty: not given
  uint32_t sequence = 0, threads = 0;
  bool resume = false, overwrite = false, stateInFile = false, sampleMemory = false, json = false;
};

// -1: go on; otherwise the exit status, after the message was printed.
int parseOptions(int argc, char **argv, RunOptions &out);
