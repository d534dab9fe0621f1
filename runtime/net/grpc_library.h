// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mebp/grpc.h"
#include "runtime/core/status.h"

namespace mebp::net {

// The functions of mebp/grpc.h, for those who do not link libmebp_grpc.
struct GrpcLibrary {
  decltype(&mebp_grpc_version) version;
  decltype(&mebp_grpc_connection_create) createConnection;
  decltype(&mebp_grpc_connection_free) freeConnection;
  decltype(&mebp_grpc_stream_create) createStream;
  decltype(&mebp_grpc_stream_free) freeStream;
  decltype(&mebp_grpc_server_start) startServer;
  decltype(&mebp_grpc_server_port) port;
  decltype(&mebp_grpc_server_stop) stopServer;
};

// Opened once by the first who asks and never closed: the file that the variable MEBP_GRPC_LIBRARY names, or
// libmebp_grpc beside this code. Or why there is none, and how to get it.
Result<GrpcLibrary> openGrpcLibrary();

// The same of this file, each time.
Result<GrpcLibrary> openGrpcLibrary(const std::string &file, const std::vector<std::string> &folders);

} // namespace mebp::net
