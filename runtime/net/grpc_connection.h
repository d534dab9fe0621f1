// SPDX-License-Identifier: Apache-2.0
//
// A device's stream over gRPC, for those who do not link libmebp_grpc.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/net/grpc_library.h"

namespace mebp::net {

// Where a server is, and who one is, by files in PEM form.
struct GrpcEndpoint {
  std::string address, certificate, key, authority;
  bool plainText = false; // none of the files is looked at
  // Of this endpoint, which has to outlive them.
  mebp_grpc_options options(uint64_t frameBytes) const;
};

// Outlives whatever uses the stream.
class GrpcConnection {
public:
  GrpcConnection() = default;
  GrpcConnection(const GrpcConnection &) = delete;
  GrpcConnection &operator=(const GrpcConnection &) = delete;
  ~GrpcConnection();

  // Opens the library, and makes a stream that is not opened yet.
  Status create(const GrpcEndpoint &endpoint, uint64_t frameBytes);
  const mebp_transport &get() const { return stream; }

private:
  GrpcLibrary library = {};
  mebp_grpc_connection *connection = nullptr;
  mebp_transport stream = {};
};

} // namespace mebp::net
