// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc_connection.h"

namespace mebp::net {

mebp_grpc_options GrpcEndpoint::options(uint64_t frameBytes) const {
  mebp_grpc_options options;
  mebp_grpc_options_init(&options);
  options.address = address.c_str();
  options.plain_text = plainText;
  if (!plainText) {
    options.certificate = certificate.c_str();
    options.key = key.c_str();
    options.authority = authority.c_str();
  }
  options.frame_bytes = frameBytes;
  return options;
}

GrpcConnection::~GrpcConnection() {
  if (!connection)
    return;
  library.freeStream(&stream);
  library.freeConnection(connection);
}

Status GrpcConnection::create(const GrpcEndpoint &endpoint, uint64_t frameBytes) {
  Result<GrpcLibrary> opened = openGrpcLibrary();
  if (!opened.ok())
    return opened.status();
  library = *opened;
  const mebp_grpc_options options = endpoint.options(frameBytes);
  mebp_error error = {};
  mebp_grpc_connection *created = nullptr;
  if (mebp_code code = library.createConnection(&options, &created, &error); code != MEBP_OK)
    return Status(code, error.message);
  mebp_transport_init(&stream);
  if (mebp_code code = library.createStream(created, &stream, &error); code != MEBP_OK) {
    library.freeConnection(created);
    return Status(code, error.message);
  }
  connection = created;
  return Status();
}

} // namespace mebp::net
