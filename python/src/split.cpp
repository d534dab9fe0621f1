// SPDX-License-Identifier: Apache-2.0
#include "split.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace mebp::python {

static void check(const Status &status) {
  mebp_error error = {};
  check(report(status, &error), error);
}

Server::Server(const Bundle &bundle, uint32_t threads, uint64_t memoryLimit, uint32_t resumeWindowMs,
               uint32_t maxSessions)
    : bytes(bundle.info().frame_bytes), maxSessions(maxSessions) {
  mebp_server_options options;
  mebp_server_options_init(&options);
  options.threads = threads;
  options.memory_limit = memoryLimit;
  options.resume_window_ms = resumeWindowMs;
  options.max_sessions = maxSessions;
  options.log = [](void *user, mebp_log_level, const char *line) {
    auto &server = *static_cast<Server *>(user);
    std::lock_guard<std::mutex> lock(server.mutex);
    server.said.emplace_back(line);
  };
  options.log_user = this;
  mebp_error error;
  check(mebp_server_create(bundle.get(), &options, &handle, &error), error);
}

Server::~Server() {
  stop();
  mebp_server_destroy(handle);
}

// A session has its first stream, on whose thread it runs, the one in use, and the next one of a device that comes
// back.
void Server::listen(const Endpoint &endpoint) {
  Result<net::GrpcLibrary> opened = net::openGrpcLibrary();
  check(opened.status());
  library = *opened;
  mebp_grpc_options options = endpoint.options(bytes);
  options.streams = 3 * maxSessions;
  mebp_error error;
  check(library.startServer(&options, &mebp_server_serve, handle, &listening, &error), error);
}

void Server::stop() {
  mebp_server_stop(handle);
  if (!listening)
    return;
  nb::gil_scoped_release release;
  library.stopServer(listening);
  listening = nullptr;
}

std::vector<std::string> Server::lines() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(said, {});
}

Stream::Stream(Server &server, const std::string &identity, bool records, uint32_t count) : ways(count) {
  limits.frameBytes = server.frameBytes();
  for (Way &way : ways) {
    if (records)
      way.recorder = std::make_unique<Recorder>(server.get());
    way.pipe = records ? std::make_unique<net::ServedPipe>(limits, &Recorder::serve, way.recorder.get(), identity)
                       : std::make_unique<net::ServedPipe>(limits, &mebp_server_serve, server.get(), identity);
    way.inner = way.transport = net::transportOf(*way.pipe);
  }
  finish();
}

Stream::Stream(const Endpoint &endpoint, uint64_t frameBytes, uint32_t retryMs, uint32_t count)
    : ways(count), retryMs(retryMs) {
  limits.frameBytes = frameBytes;
  for (Way &way : ways) {
    way.connection = std::make_unique<net::GrpcConnection>();
    check(way.connection->create(endpoint, frameBytes));
    way.inner = way.transport = way.connection->get();
  }
  finish();
}

void Stream::finish() {
  for (const Way &way : ways)
    transports.push_back(&way.transport);
}

Stream::~Stream() {
  nb::gil_scoped_release release;
  for (Way &way : ways) {
    if (way.transport.close)
      way.transport.close(way.transport.user);
    way.shaped.reset();
    way.pipe.reset();
    way.connection.reset();
  }
}

void Stream::shape(double upMbit, double downMbit, double delayMs, uint64_t framesPerCut, uint64_t seed) {
  net::Shape shape;
  shape.upMbit = upMbit;
  shape.downMbit = downMbit;
  shape.delayMs = delayMs;
  shape.framesPerCut = static_cast<uint32_t>(framesPerCut);
  shape.seed = seed;
  for (Way &way : ways) {
    way.shaped = std::make_unique<net::Shaped>(way.inner, shape, limits);
    way.transport = net::transportOf(*way.shaped);
    ++shape.seed;
  }
}

nb::list Stream::recorded() {
  nb::list list;
  for (const Way &way : ways)
    for (const RecordedFrame &frame : way.recorder ? way.recorder->take() : std::vector<RecordedFrame>())
      list.append(nb::make_tuple(frame.isFromDevice, nb::bytes(frame.head.data(), frame.head.size()),
                                 nb::bytes(frame.body.data(), frame.body.size())));
  return list;
}

void Stream::giveTo(mebp_session_options &options) const {
  options.transport = transports.front();
  options.further_transports = transports.data() + 1;
  options.in_flight = static_cast<uint32_t>(transports.size());
  options.retry_ms = retryMs;
}

void bindSplit(nb::module_ &module) {
  nb::class_<Endpoint>(module, "Endpoint")
      .def(
          "__init__",
          [](Endpoint *self, std::string address, const Path &certificate, const Path &key, const Path &authority) {
            const bool plainText = certificate.empty() && key.empty() && authority.empty();
            new (self) Endpoint{std::move(address), certificate.string(), key.string(), authority.string(), plainText};
          },
          nb::arg("address"), nb::arg("certificate"), nb::arg("key"), nb::arg("authority"));
  nb::class_<Server>(module, "Server")
      .def(nb::init<const Bundle &, uint32_t, uint64_t, uint32_t, uint32_t>(), nb::arg("bundle"), nb::arg("threads"),
           nb::arg("memory_limit"), nb::arg("resume_window_ms"), nb::arg("max_sessions"), nb::keep_alive<1, 2>())
      .def("listen", &Server::listen, nb::arg("endpoint"))
      .def("port", &Server::port)
      .def("lines", &Server::lines)
      .def("stop", &Server::stop);
  nb::class_<Stream>(module, "Stream")
      .def(nb::init<Server &, const std::string &, bool, uint32_t>(), nb::arg("server"), nb::arg("identity"),
           nb::arg("records"), nb::arg("count"), nb::keep_alive<1, 2>())
      .def(nb::init<const Endpoint &, uint64_t, uint32_t, uint32_t>(), nb::arg("endpoint"), nb::arg("frame_bytes"),
           nb::arg("retry_ms"), nb::arg("count"))
      .def("recorded", &Stream::recorded)
      .def("shape", &Stream::shape, nb::arg("up_mbit"), nb::arg("down_mbit"), nb::arg("delay_ms"),
           nb::arg("frames_per_cut"), nb::arg("seed"));
}

} // namespace mebp::python
