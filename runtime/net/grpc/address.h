// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <sys/socket.h>

#include "runtime/core/status.h"

namespace mebp::net {

struct Address {
  std::string host; // without the brackets of IPv6
  std::string port;
  std::string text; // as it was given
};
Result<Address> parseAddress(const char *text);

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  int family = 0;
  bool isLoopback() const;
};
Result<std::vector<SocketAddress>> resolve(const Address &address, bool toListen);

// The same as gRPC's name of a target: it could resolve a host itself, by a library that leaks, and not as the system
// does.
std::string targetOf(const std::vector<SocketAddress> &addresses);

// Plain text never leaves this machine.
Status checkLoopback(const Address &address, bool toListen);

// Why a server cannot listen here.
Status whyNotListening(const Address &address);

} // namespace mebp::net
