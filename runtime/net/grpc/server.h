// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include "runtime/net/grpc/options.h"

namespace mebp::net {

class Server final : private grpc::CallbackGenericService {
public:
  Server(Options options, mebp_serve_stream serve, void *user);
  ~Server() override; // ends all streams, and waits for them

  Status start();
  uint16_t port() const { return boundPort; }

private:
  class ServerCall;
  grpc::ServerGenericBidiReactor *CreateReactor(grpc::GenericCallbackServerContext *context) override;
  void leave();
  bool enter();

  const Options options;
  const mebp_serve_stream serve;
  void *const user;
  int boundPort = 0;
  std::unique_ptr<grpc::Server> server;

  std::mutex mutex;
  std::condition_variable changed;
  uint32_t inside = 0; // streams, until both their thread and gRPC are done with them
};

} // namespace mebp::net
