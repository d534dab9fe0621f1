// SPDX-License-Identifier: Apache-2.0
//
// What mebp/grpc.h asks for, read and checked, and what gRPC is told of it.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/support/channel_arguments.h>

#include "mebp/grpc.h"
#include "runtime/net/grpc/address.h"
#include "runtime/net/grpc/credentials.h"
#include "runtime/net/stream.h"

namespace mebp::net {

// The one method that there is.
constexpr const char *methodName = "/mebp.Split/Run";

struct Options {
  Address address;
  Credentials credentials;
  std::string serverName;
  bool plainText = false;
  StreamLimits limits;
  uint32_t streams = 0;
};
enum class Role { Server, Device };
Result<Options> readOptions(const mebp_grpc_options *given, Role role);

// The arguments that both sides have, one after the other.
struct Argument {
  const char *name;
  int value;
};
std::vector<Argument> commonArguments(const StreamLimits &limits);

// gRPC writes lines of its own to standard error, which is not ours; the variable GRPC_VERBOSITY brings them back.
void silenceGrpc();

} // namespace mebp::net
