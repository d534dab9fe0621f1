// SPDX-License-Identifier: Apache-2.0
//
// What gRPC's streams do beyond what all streams do (stream_test.cpp).
#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>

#include "grpc_connections.h"

namespace mebp::test {
namespace {

class GrpcConnection final : public Connection {
public:
  GrpcConnection(const StreamLimits &limits, Serve given, bool plain)
      : Connection(std::move(given)), server(with(GrpcOptions::server(), limits, plain), serve) {
    EXPECT_EQ(server.code, MEBP_OK) << server.error.message;
    GrpcOptions options = with(GrpcOptions::device(), limits, plain);
    options.address = server.address();
    connected.emplace(options);
    EXPECT_EQ(connected->code, MEBP_OK) << connected->error.message;
  }
  End device() override { return connected->stream(); }

private:
  static GrpcOptions with(const GrpcOptions &files, const StreamLimits &limits, bool plain) {
    GrpcOptions options = plain ? files.plain() : files;
    options.limits = limits;
    return options;
  }

  GrpcServer server;
  std::optional<GrpcDevice> connected;
};

std::unique_ptr<Connection> overTls(const StreamLimits &limits, Serve serve) {
  return std::make_unique<GrpcConnection>(limits, std::move(serve), false);
}
std::unique_ptr<Connection> inPlainText(const StreamLimits &limits, Serve serve) {
  return std::make_unique<GrpcConnection>(limits, std::move(serve), true);
}

INSTANTIATE_TEST_SUITE_P(Grpc, StreamTest,
                         testing::Values(Kind{"tls", overTls, true,
                                              fingerprintOf(trialAuthority().path("client.pem")) + " CN=a device"},
                                         Kind{"plain", inPlainText, true, "plain text, ipv"}),
                         testing::PrintToStringParamName());

TEST(Grpc, CloseEndsAnOpenThatWaits) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0); // says nothing
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr *>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 5), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size), 0);
  GrpcOptions options = GrpcOptions::device();
  options.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  GrpcDevice device(options);
  End stream = device.stream();
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stream.close();
  });
  EXPECT_EQ(stream.open(UINT32_MAX), MEBP_DISCONNECTED);
  EXPECT_STREQ(stream.error.message, "this stream was closed; open it again");
  closer.join();
  ::close(listener);
}

TEST(Grpc, AServerThatStopsEndsItsStreams) {
  GrpcOptions options = GrpcOptions::server();
  auto server = std::make_unique<GrpcServer>(options, [](End stream, const std::string &) {
    Bytes head, body(10);
    EXPECT_EQ(stream.receive(head, body, UINT32_MAX), MEBP_DISCONNECTED);
  });
  options = GrpcOptions::device();
  options.address = server->address();
  GrpcDevice device(options);
  End stream = device.stream();
  ASSERT_EQ(stream.open(), MEBP_OK) << stream.error.message;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.reset();
  });
  Bytes head, body(10);
  EXPECT_EQ(stream.receive(head, body, UINT32_MAX), MEBP_DISCONNECTED);
  const std::string start = "the connection to " + options.address + " was lost (";
  EXPECT_EQ(std::string(stream.error.message).substr(0, start.size()), start);
  stopper.join();
  EXPECT_EQ(stream.open(), MEBP_DISCONNECTED);
  EXPECT_EQ(stream.error.message,
            options.address + ": connection refused; see whether mebp serve runs there, on this port");
}

TEST(Grpc, AServerDoesNotWaitForEverForADeviceThatTakesNothing) {
  GrpcOptions options = GrpcOptions::server();
  options.limits.frameBytes = 2'000'000;
  options.limits.frames = 2;
  options.limits.silenceMs = 1000;
  std::promise<void> over;
  GrpcServer server(options, [&](End stream, const std::string &) {
    while (stream.send({}, Bytes(2'000'000)) == MEBP_OK) {
    }
    EXPECT_STREQ(stream.error.message,
                 "the device took no frame for 1000 ms; see whether it still runs, or wait longer");
    over.set_value();
  });
  GrpcOptions devices = GrpcOptions::device();
  devices.limits = options.limits;
  devices.address = server.address();
  GrpcDevice device(devices);
  End stream = device.stream();
  ASSERT_EQ(stream.open(), MEBP_OK) << stream.error.message;
  over.get_future().wait();
}

// A new server at the old address is found at once, however often there was none.
TEST(Grpc, AServerThatStartsAgainIsFoundAtOnce) {
  const Serve serve = echo({}, 0);
  GrpcOptions options = GrpcOptions::server(), devices = GrpcOptions::device();
  auto server = std::make_unique<GrpcServer>(options, serve);
  devices.address = options.address = server->address();
  GrpcDevice device(devices);
  End stream = device.stream();
  for (int time = 0; time < 3; ++time) {
    ASSERT_EQ(stream.open(), MEBP_OK) << stream.error.message;
    server.reset();
    for (int attempt = 0; attempt < 5; ++attempt)
      EXPECT_EQ(stream.open(), MEBP_DISCONNECTED);
    server = std::make_unique<GrpcServer>(options, serve);
    ASSERT_EQ(server->code, MEBP_OK) << server->error.message;
  }
  EXPECT_EQ(stream.open(1000), MEBP_OK) << stream.error.message;
}

} // namespace
} // namespace mebp::test
