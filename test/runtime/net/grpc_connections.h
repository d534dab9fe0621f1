// SPDX-License-Identifier: Apache-2.0
//
// Servers and devices over gRPC, each with options of a test's own.
#pragma once

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "certificates.h"
#include "connections.h"
#include "mebp/grpc.h"

namespace mebp::test {

// One authority for all tests, with certificates for a server and for a device.
inline Authority &trialAuthority() {
  static Authority authority(std::filesystem::temp_directory_path() / ("mebp_grpc_" + std::to_string(::getpid())));
  static const bool signedOnce = [] {
    authority.sign("server", {});
    Wish device;
    device.names.clear();
    device.subject = "a device";
    authority.sign("client", device);
    return true;
  }();
  (void)signedOnce;
  return authority;
}

// Options whose texts live as long as they do.
struct GrpcOptions {
  std::string address = "localhost:0", certificate, key, authority, serverName;
  bool plainText = false;
  StreamLimits limits;
  uint32_t streams = 64;

  static GrpcOptions server() { return signedBy(trialAuthority(), "server"); }
  static GrpcOptions device() { return signedBy(trialAuthority(), "client"); }
  static GrpcOptions signedBy(const Authority &authority, const std::string &name) {
    GrpcOptions options;
    options.certificate = authority.path(name + ".pem");
    options.key = authority.path(name + ".key");
    options.authority = trialAuthority().path("ca.pem");
    return options;
  }
  GrpcOptions plain() const {
    GrpcOptions options = *this;
    options.certificate = options.key = options.authority = "";
    options.plainText = true;
    return options;
  }

  mebp_grpc_options inC() const {
    const auto orNull = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
    mebp_grpc_options options;
    mebp_grpc_options_init(&options);
    options.address = orNull(address);
    options.certificate = orNull(certificate);
    options.key = orNull(key);
    options.authority = orNull(authority);
    options.server_name = orNull(serverName);
    options.plain_text = plainText;
    options.frames = static_cast<uint32_t>(limits.frames);
    options.frame_bytes = limits.frameBytes;
    options.silence_ms = limits.silenceMs;
    options.streams = streams;
    return options;
  }
};

class GrpcServer {
public:
  GrpcServer(const GrpcOptions &options, Serve serve) : serve(std::move(serve)) {
    const mebp_grpc_options inC = options.inC();
    code = mebp_grpc_server_start(&inC, callServe, &this->serve, &handle, &error);
  }
  ~GrpcServer() { mebp_grpc_server_stop(handle); }
  std::string address(const std::string &host = "localhost") const {
    return host + ":" + std::to_string(mebp_grpc_server_port(handle));
  }

  mebp_code code;
  mebp_error error = {};

private:
  Serve serve;
  mebp_grpc_server *handle = nullptr;
};

class GrpcDevice {
public:
  explicit GrpcDevice(const GrpcOptions &options) {
    const mebp_grpc_options inC = options.inC();
    code = mebp_grpc_connection_create(&inC, &handle, &error);
  }
  ~GrpcDevice() {
    for (const End &each : streams)
      mebp_grpc_stream_free(&each.stream);
    mebp_grpc_connection_free(handle);
  }
  End stream() {
    End made;
    mebp_grpc_stream_create(handle, &made.stream, &made.error);
    streams.push_back(made);
    return made;
  }

  mebp_code code;
  mebp_error error = {};

private:
  mebp_grpc_connection *handle = nullptr;
  std::vector<End> streams;
};

} // namespace mebp::test
