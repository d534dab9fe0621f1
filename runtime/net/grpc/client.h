// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include <grpcpp/channel.h>

#include "runtime/net/grpc/options.h"

namespace mebp::net {

// A connection to one server, over which any number of streams goes.
class Connection {
public:
  explicit Connection(Options options);

  // gRPC's channel, another than `broken`. A failed one would wait longer and longer before it tries again, which is
  // not its decision: there is a new one then, for which the host is looked up again.
  Result<std::shared_ptr<grpc::Channel>> channel(const std::shared_ptr<grpc::Channel> &broken = nullptr);

  const Options options;

private:
  std::shared_ptr<grpc::Channel> make(const std::string &target) const;

  std::mutex mutex;
  std::shared_ptr<grpc::Channel> current;
};

class ClientCall;

// A device's stream: one call of gRPC after the other, each time that it is opened.
class ClientStream final : public Stream {
public:
  explicit ClientStream(Connection &connection) : connection(connection) {}
  ~ClientStream() override { close(); }

  Status open(uint32_t timeoutMs) override;
  Status send(const void *head, size_t headBytes, const void *body, size_t bodyBytes) override;
  Status receive(void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t &bodyBytes,
                 uint32_t timeoutMs) override;
  void close() override;

private:
  std::shared_ptr<ClientCall> current();
  Status openOver(const std::shared_ptr<grpc::Channel> &channel, uint64_t closesBefore, uint32_t timeoutMs,
                  Clock::time_point deadline, bool &unavailable);

  Connection &connection;
  std::mutex mutex;
  std::shared_ptr<ClientCall> call;
  uint64_t closes = 0; // so that one of them ends an `open`, wherever that is
};

} // namespace mebp::net
