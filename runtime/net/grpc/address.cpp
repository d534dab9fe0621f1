// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mebp::net {

Result<Address> parseAddress(const char *text) {
  Address address;
  address.text = text;
  const size_t colon = address.text.rfind(':');
  if (colon != std::string::npos) {
    address.host = address.text.substr(0, colon);
    address.port = address.text.substr(colon + 1);
    if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
      address.host = address.host.substr(1, address.host.size() - 2);
    else if (address.host.find(':') != std::string::npos)
      address.host.clear(); // IPv6 without brackets has no clear end
  }
  const bool isNumber =
      !address.port.empty() && address.port.size() <= 5 &&
      std::all_of(address.port.begin(), address.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (address.host.empty() || !isNumber || std::stoul(address.port) > 65535)
    return failure(MEBP_INVALID_ARGUMENT, "'%s' is not an address; write HOST:PORT, as in localhost:7420 or [::1]:7420",
                   text);
  return address;
}

bool SocketAddress::isLoopback() const {
  if (family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in &>(storage).sin_addr.s_addr) >> 24 == 127;
  return family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 &>(storage).sin6_addr);
}

Result<std::vector<SocketAddress>> resolve(const Address &address, bool toListen) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = toListen ? AI_PASSIVE : 0;
  if (int code = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found))
    return failure(MEBP_DISCONNECTED, "no host '%s' is known (%s); check its name and this machine's network",
                   address.host.c_str(), code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code));
  std::vector<SocketAddress> addresses;
  for (const addrinfo *each = found; each; each = each->ai_next) {
    SocketAddress socketAddress;
    std::memcpy(&socketAddress.storage, each->ai_addr, each->ai_addrlen);
    socketAddress.size = each->ai_addrlen;
    socketAddress.family = each->ai_family;
    addresses.push_back(socketAddress);
  }
  ::freeaddrinfo(found);
  return addresses;
}

// "[::1]:7420"; of IPv4 "127.0.0.1:7420", or as IPv6 has it where both go together.
static std::string textOf(const SocketAddress &address, bool asIpv6) {
  char host[INET6_ADDRSTRLEN + 64] = "", port[8] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr *>(&address.storage), address.size, host, sizeof(host), port,
                sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  std::string text = host;
  if (const size_t zone = text.find('%'); zone != std::string::npos)
    text.insert(zone + 1, "25");
  if (address.family == AF_INET6)
    text = "[" + text + "]";
  else if (asIpv6)
    text = "[::ffff:" + text + "]";
  return text + ":" + port;
}

std::string targetOf(const std::vector<SocketAddress> &addresses) {
  const bool asIpv6 = std::any_of(addresses.begin(), addresses.end(),
                                  [](const SocketAddress &each) { return each.family == AF_INET6; });
  std::string target;
  for (const SocketAddress &each : addresses)
    target += (target.empty() ? (asIpv6 ? "ipv6:" : "ipv4:") : ",") + textOf(each, asIpv6);
  return target;
}

Status checkLoopback(const Address &address, bool toListen) {
  Result<std::vector<SocketAddress>> addresses = resolve(address, toListen);
  if (!addresses.ok())
    return addresses.status();
  if (std::all_of(addresses->begin(), addresses->end(), [](const SocketAddress &each) { return each.isLoopback(); }))
    return Status();
  return failure(MEBP_INVALID_ARGUMENT,
                 "%s is not an address of this machine alone, and plain text goes to no other; use certificates, or "
                 "localhost",
                 address.text.c_str());
}

Status whyNotListening(const Address &address) {
  Result<std::vector<SocketAddress>> addresses = resolve(address, true);
  if (!addresses.ok())
    return addresses.status();
  int number = 0;
  for (const SocketAddress &each : *addresses) {
    const int trial = ::socket(each.family, SOCK_STREAM, 0);
    if (trial < 0)
      continue;
    if (::bind(trial, reinterpret_cast<const sockaddr *>(&each.storage), each.size) != 0 || ::listen(trial, 1) != 0)
      number = errno;
    ::close(trial);
  }
  return failure(MEBP_IO, "cannot listen on %s (%s); choose another port, or 0 for any", address.text.c_str(),
                 number ? std::strerror(number) : "gRPC gives no reason");
}

} // namespace mebp::net
