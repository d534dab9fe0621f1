// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/diagnose.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/net/grpc/handshake.h"

namespace mebp::net {

namespace {

class Socket {
public:
  Socket() = default;
  Socket(const Socket &) = delete;
  ~Socket() { reset(); }
  void reset(int number = -1) {
    if (descriptor >= 0)
      ::close(descriptor);
    descriptor = number;
  }
  int descriptor = -1;
};

} // namespace

static int millisecondsUntil(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 10'000));
}

// 0, or an errno.
static int connectTo(const SocketAddress &address, Clock::time_point deadline, Socket &made) {
  made.reset(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.descriptor < 0)
    return errno;
  if (::connect(made.descriptor, reinterpret_cast<const sockaddr *>(&address.storage), address.size) == 0)
    return 0;
  if (errno != EINPROGRESS)
    return errno;
  pollfd wait = {made.descriptor, POLLOUT, 0};
  if (::poll(&wait, 1, millisecondsUntil(deadline)) <= 0)
    return ETIMEDOUT;
  int number = 0;
  socklen_t size = sizeof(number);
  ::getsockopt(made.descriptor, SOL_SOCKET, SO_ERROR, &number, &size);
  return number;
}

Status diagnose(const Options &options, Clock::time_point deadline, Status otherwise) {
  deadline = std::min(deadline, Clock::now() + std::chrono::seconds(5));
  Result<std::vector<SocketAddress>> addresses = resolve(options.address, false);
  if (!addresses.ok())
    return addresses.status();
  Socket connected;
  int number = 0;
  for (const SocketAddress &address : *addresses)
    if (number = connectTo(address, deadline, connected); number == 0)
      break;
  const char *where = options.address.text.c_str();
  if (number == ECONNREFUSED)
    return failure(MEBP_DISCONNECTED, "%s: connection refused; see whether mebp serve runs there, on this port", where);
  if (number)
    return failure(MEBP_DISCONNECTED, "%s: cannot connect (%s); check host, port and network", where,
                   std::strerror(number));
  Status wrong = options.plainText ? lookForTls(options, connected.descriptor, deadline)
                                   : tryHandshake(options, connected.descriptor, deadline);
  return wrong.ok() ? otherwise : wrong;
}

} // namespace mebp::net
