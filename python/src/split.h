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

// A device's; what is under it lives as long.
class Stream {
public:
  // Within this process; it may keep what the server's end receives and sends.
  Stream(Server &server, const std::string &identity, bool records);
  Stream(const Endpoint &endpoint, uint64_t frameBytes, uint32_t retryMs);
  ~Stream();
  // Makes the network as slow as that, in Mbit/s and ms.
  void shape(double upMbit, double downMbit, double delayMs, uint64_t cutEvery, uint64_t seed);
  // [(whether the device sent it, head, body)], in their order, since this was asked the last time.
  nb::list recorded();
  const mebp_transport *get() const { return &transport; }
  // So long its session tries again to reach the server; 0: as long as the runtime would.
  uint32_t retry() const { return retryMs; }

private:
  net::StreamLimits limits;
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<net::ServedPipe> pipe;
  std::unique_ptr<net::GrpcConnection> connection;
  mebp_transport inner = {};
  std::unique_ptr<net::Shaped> shaped;
  mebp_transport transport = {};
  uint32_t retryMs = 0;
};

void bindSplit(nb::module_ &module);

} // namespace mebp::python
