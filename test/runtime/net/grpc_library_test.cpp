// SPDX-License-Identifier: Apache-2.0
//
// libmebp_grpc for those who do not link it.
#include "grpc_connections.h"
#include "runtime/net/grpc_library.h"

namespace mebp::test {
namespace {

TEST(GrpcLibrary, IsFoundBesideTheProgram) {
  Result<net::GrpcLibrary> library = net::openGrpcLibrary();
  ASSERT_TRUE(library.ok()) << library.status().message();
  const Serve serve = echo({}, 0);
  mebp_grpc_options options = GrpcOptions::server().inC();
  EXPECT_EQ(library->startServer(&options, callServe, nullptr, nullptr, nullptr), MEBP_INVALID_ARGUMENT);
  const GrpcOptions server = GrpcOptions::server();
  options = server.inC();
  mebp_grpc_server *started = nullptr;
  ASSERT_EQ(library->startServer(&options, callServe, const_cast<Serve *>(&serve), &started, nullptr), MEBP_OK);
  GrpcOptions device = GrpcOptions::device();
  device.address = "localhost:" + std::to_string(library->port(started));
  options = device.inC();
  mebp_grpc_connection *connection = nullptr;
  ASSERT_EQ(library->createConnection(&options, &connection, nullptr), MEBP_OK);
  End stream;
  ASSERT_EQ(library->createStream(connection, &stream.stream, nullptr), MEBP_OK);
  EXPECT_EQ(stream.open(), MEBP_OK) << stream.error.message;
  EXPECT_EQ(stream.send({1, 2}, {3}), MEBP_OK);
  Bytes head(1), body(5);
  EXPECT_EQ(stream.receive(head, body), MEBP_OK);
  EXPECT_EQ(body, (Bytes{2, 3}));
  library->freeStream(&stream.stream);
  library->freeConnection(connection);
  library->stopServer(started);
}

TEST(GrpcLibrary, IsNotThere) {
  EXPECT_EQ(net::openGrpcLibrary("libmebp_grpc.so", {"/nowhere/", "/neither/"}).status().message(),
            "libmebp_grpc.so is not there; build mebp where gRPC is installed (libgrpc++-dev), or name the file in "
            "MEBP_GRPC_LIBRARY");
}

TEST(GrpcLibrary, IsAnotherLibrary) {
  EXPECT_EQ(net::openGrpcLibrary(LIBRARY_NAME, {LIBRARY_FOLDER}).status().message(),
            LIBRARY_NAME " lacks functions of mebp/grpc.h; install it and mebp from one release");
}

} // namespace
} // namespace mebp::test
