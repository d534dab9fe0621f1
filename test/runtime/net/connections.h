// SPDX-License-Identifier: Apache-2.0
//
// What tests of streams share: a device's end beside a server, over whatever kind of stream; calls without a struct of
// functions between; and servers for tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/net/stream.h"

namespace mebp::test {

using net::StreamLimits;
using Bytes = std::vector<unsigned char>;

// A stream's end, in the test's own words. What failed stands in `error`.
struct End {
  mebp_transport stream = {};
  mebp_error error = {};

  mebp_code open(uint32_t timeoutMs = 5000) { return stream.open(stream.user, timeoutMs, &error); }
  mebp_code send(const Bytes &head, const Bytes &body) {
    return stream.send(stream.user, head.data(), head.size(), body.data(), body.size(), &error);
  }
  mebp_code receive(Bytes &head, Bytes &body, uint32_t timeoutMs = 5000) { // as long as they are; body: at most
    size_t size = 0;
    mebp_code code =
        stream.receive(stream.user, head.data(), head.size(), body.data(), body.size(), &size, timeoutMs, &error);
    if (code == MEBP_OK)
      body.resize(size);
    return code;
  }
  void close() { stream.close(stream.user); }
};

using Serve = std::function<void(End stream, const std::string &identity)>;
inline void callServe(void *user, const mebp_transport *stream, const char *identity) {
  (*static_cast<const Serve *>(user))({*stream}, identity);
}

// A server that lets `serve` have each stream, and devices that may open streams to it.
class Connection {
public:
  explicit Connection(Serve serve) : serve(std::move(serve)) {}
  virtual ~Connection() = default;
  virtual End device() = 0; // one more, which is not opened

protected:
  Serve serve;
};

struct Kind {
  const char *name;
  std::unique_ptr<Connection> (*connect)(const StreamLimits &limits, Serve serve);
  bool holdsBack; // a sender that is not received from
  std::string identity;
};
inline void PrintTo(const Kind &kind, std::ostream *out) { *out << kind.name; }

class StreamTest : public testing::TestWithParam<Kind> {};

// Bytes that are others for each seed.
Bytes bytesOf(size_t size, uint64_t seed);
// Sends back what arrives, with heads of so many bytes, until the stream ends.
Serve echo(const StreamLimits &limits, size_t headBytes);

} // namespace mebp::test
