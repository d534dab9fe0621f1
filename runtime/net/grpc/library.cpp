// SPDX-License-Identifier: Apache-2.0
//
// mebp/grpc.h's functions. What gRPC and the standard library throw ends here.
#include <exception>
#include <memory>
#include <new>

#include "runtime/core/edge.h"
#include "runtime/net/grpc/client.h"
#include "runtime/net/grpc/server.h"

using namespace mebp;

struct mebp_grpc_connection {
  net::Connection connection;
};
struct mebp_grpc_server {
  net::Server server;
};

template <typename Body>
static mebp_code guardedFromAll(mebp_error *error, std::initializer_list<mebp::Argument> arguments, const Body &body) {
  try {
    return guarded(error, arguments, body);
  } catch (const std::exception &thrown) {
    return report(failure(MEBP_IO, "gRPC failed (%s); try again", thrown.what()), error);
  }
}

extern "C" {

const char *mebp_grpc_version(void) { return mebp_version(); }

mebp_code mebp_grpc_connection_create(const mebp_grpc_options *options, mebp_grpc_connection **out, mebp_error *error) {
  return guardedFromAll(error, {{"options", options}, {"out", out}}, [&] {
    *out = nullptr;
    Result<net::Options> read = net::readOptions(options, net::Role::Device);
    if (!read.ok())
      return read.status();
    *out = new mebp_grpc_connection{net::Connection(std::move(*read))};
    return Status();
  });
}

void mebp_grpc_connection_free(mebp_grpc_connection *connection) { delete connection; }

mebp_code mebp_grpc_stream_create(mebp_grpc_connection *connection, mebp_transport *stream, mebp_error *error) {
  return guardedFromAll(error, {{"connection", connection}, {"stream", stream}}, [&] {
    if (Status status = checkSize("mebp_transport", *stream); !status.ok())
      return status;
    writeSized(net::transportOf(*new net::ClientStream(connection->connection)), stream);
    return Status();
  });
}

void mebp_grpc_stream_free(const mebp_transport *stream) {
  if (stream)
    delete static_cast<net::Stream *>(stream->user);
}

mebp_code mebp_grpc_server_start(const mebp_grpc_options *options, mebp_serve_stream serve, void *user,
                                 mebp_grpc_server **out, mebp_error *error) {
  return guardedFromAll(error, {{"options", options}, {"serve", reinterpret_cast<const void *>(serve)}, {"out", out}},
                        [&] {
                          *out = nullptr;
                          Result<net::Options> read = net::readOptions(options, net::Role::Server);
                          if (!read.ok())
                            return read.status();
                          std::unique_ptr<mebp_grpc_server> made(new mebp_grpc_server{{std::move(*read), serve, user}});
                          if (Status status = made->server.start(); !status.ok())
                            return status;
                          *out = made.release();
                          return Status();
                        });
}

uint16_t mebp_grpc_server_port(const mebp_grpc_server *server) { return server->server.port(); }

void mebp_grpc_server_stop(mebp_grpc_server *server) { delete server; }
}
