// SPDX-License-Identifier: Apache-2.0
//
// The two ends of a split model: a server of its layers, and a device's stream to one.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mebp/serve.h"
#include "module.h"
#include "recorder.h"
#include "runtime/net/grpc_connection.h"
#include "runtime/net/pipe.h"
#include "runtime/net/shaped.h"

namespace mebp::python {

using Endpoint = net::GrpcEndpoint;

class Server {
public:
  Server(const Bundle &bundle, uint32_t threads, uint64_t memoryLimit, uint32_t resumeWindowMs, uint32_t maxSessions);
  ~Server();
  void listen(const Endpoint &endpoint);
  uint32_t port() const { return library.port(listening); }
  void stop();
  // What there was to say since the last call.
  std::vector<std::string> lines();
  mebp_server *get() const { return handle; }
  uint64_t frameBytes() const { return bytes; }

private:
  uint64_t bytes;
  uint32_t maxSessions;
  std::mutex mutex;
  std::vector<std::string> said;
  mebp_server *handle = nullptr;
  net::GrpcLibrary library = {};
  mebp_grpc_server *listening = nullptr;
};

// A device's, or several for as many micro-batches in flight; what is under them lives as long.
class Stream {
public:
  // Within this process; it may keep what the server's ends receive and send.
  Stream(Server &server, const std::string &identity, bool records, uint32_t count);
  Stream(const Endpoint &endpoint, uint64_t frameBytes, uint32_t retryMs, uint32_t count);
  Stream(const Stream &) = delete;
  ~Stream();
  // Makes the network as slow as that, in Mbit/s and ms; each stream has its own.
  void shape(double upMbit, double downMbit, double delayMs, uint64_t cutEvery, uint64_t seed);
  // [(whether the device sent it, head, body)] of one stream after the other, in their order, since this was asked the
  // last time.
  nb::list recorded();
  // For options that live no longer.
  void giveTo(mebp_session_options &options) const;

private:
  struct Way {
    std::unique_ptr<Recorder> recorder;
    std::unique_ptr<net::ServedPipe> pipe;
    std::unique_ptr<net::GrpcConnection> connection;
    mebp_transport inner = {};
    std::unique_ptr<net::Shaped> shaped;
    mebp_transport transport = {};
  };
  void finish();

  net::StreamLimits limits;
  std::vector<Way> ways;                          // stay where they are
  std::vector<const mebp_transport *> transports; // theirs
  uint32_t retryMs = 0; // so long the session tries again to reach the server; 0: as long as the runtime would
};

} // namespace mebp::python
