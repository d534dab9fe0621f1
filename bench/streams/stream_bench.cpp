// SPDX-License-Identifier: Apache-2.0
//
// One end of a stream over gRPC that frames go through and back again (bench/streams.py starts both):
//
//   stream_bench serve FRAME_BYTES [CERTIFICATES]                  prints its port, and serves until its input ends
//   stream_bench ask ADDRESS BODY_BYTES FRAMES IN_FLIGHT [CERTIFICATES]
//
// CERTIFICATES is a folder by mebp certs; without it, plain text. `ask` prints the median and the 99th percentile of a
// frame's way there and back, in microseconds, and what all took, in seconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mebp/grpc.h"

using Clock = std::chrono::steady_clock;

static constexpr size_t headBytes = 24;

static void check(mebp_code code, const mebp_error &error) {
  if (code == MEBP_OK)
    return;
  std::fprintf(stderr, "stream_bench: %s\n", error.message);
  std::exit(2);
}

namespace {

struct Options {
  Options(std::string address, const char *side, const char *certificates, size_t frameBytes)
      : address(std::move(address)), plain(!certificates) {
    const std::string folder = certificates ? certificates : "";
    certificate = folder + "/" + side + ".pem";
    key = folder + "/" + side + ".key";
    authority = folder + "/ca.pem";
    mebp_grpc_options_init(&inC);
    inC.address = this->address.c_str();
    inC.frame_bytes = frameBytes;
    inC.plain_text = plain;
    inC.certificate = plain ? nullptr : certificate.c_str();
    inC.key = plain ? nullptr : key.c_str();
    inC.authority = plain ? nullptr : authority.c_str();
  }
  const std::string address;
  const bool plain;
  std::string certificate, key, authority;
  mebp_grpc_options inC;
};

} // namespace

static void echo(void *user, const mebp_transport *stream, const char *) {
  const size_t frameBytes = *static_cast<const size_t *>(user);
  std::vector<unsigned char> head(headBytes), body(frameBytes - headBytes);
  size_t size = 0;
  mebp_error error;
  while (stream->receive(stream->user, head.data(), head.size(), body.data(), body.size(), &size, UINT32_MAX, &error) ==
             MEBP_OK &&
         stream->send(stream->user, head.data(), head.size(), body.data(), size, &error) == MEBP_OK) {
  }
}

static int serve(size_t frameBytes, const char *certificates) {
  const Options options("localhost:0", "server", certificates, frameBytes);
  mebp_grpc_server *server = nullptr;
  mebp_error error;
  check(mebp_grpc_server_start(&options.inC, echo, &frameBytes, &server, &error), error);
  std::printf("%u\n", mebp_grpc_server_port(server));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  mebp_grpc_server_stop(server);
  return 0;
}

static int ask(const char *address, size_t bodyBytes, size_t frames, size_t inFlight, const char *certificates) {
  const Options options(address, "client", certificates, headBytes + bodyBytes);
  mebp_grpc_connection *connection = nullptr;
  mebp_transport stream;
  mebp_transport_init(&stream);
  mebp_error error;
  check(mebp_grpc_connection_create(&options.inC, &connection, &error), error);
  check(mebp_grpc_stream_create(connection, &stream, &error), error);
  check(stream.open(stream.user, 10'000, &error), error);
  std::vector<unsigned char> head(headBytes), body(bodyBytes);
  std::vector<double> microseconds;
  std::vector<Clock::time_point> sent(frames);
  size_t sends = 0, size = 0;
  const Clock::time_point start = Clock::now();
  for (size_t received = 0; received < frames; ++received) {
    for (; sends < frames && sends < received + inFlight; ++sends) {
      sent[sends] = Clock::now();
      check(stream.send(stream.user, head.data(), head.size(), body.data(), body.size(), &error), error);
    }
    check(stream.receive(stream.user, head.data(), head.size(), body.data(), body.size(), &size, 60'000, &error),
          error);
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - sent[received]).count());
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::sort(microseconds.begin(), microseconds.end());
  std::printf("%.1f %.1f %.6f\n", microseconds[frames / 2], microseconds[frames * 99 / 100], seconds);
  mebp_grpc_stream_free(&stream);
  mebp_grpc_connection_free(connection);
  return 0;
}

int main(int count, char **words) {
  const auto number = [&](int index) { return std::strtoull(words[index], nullptr, 10); };
  const std::string mode = count > 1 ? words[1] : "";
  if (mode == "serve" && (count == 3 || count == 4))
    return serve(number(2), count == 4 ? words[3] : nullptr);
  if (mode == "ask" && (count == 6 || count == 7))
    return ask(words[2], number(3), number(4), number(5), count == 7 ? words[6] : nullptr);
  std::fprintf(stderr, "stream_bench: see bench/streams.py, which starts it\n");
  return 2;
}
