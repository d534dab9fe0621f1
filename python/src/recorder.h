// SPDX-License-Identifier: Apache-2.0
//
// Keeps the frames that a server receives and sends, as anybody can who runs one.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "mebp/serve.h"

namespace mebp::python {

struct RecordedFrame {
  bool isFromDevice = false;
  std::string head, body;
};

class Recorder {
public:
  explicit Recorder(mebp_server *server) : server(server) {}
  // A mebp_serve_stream, whose user is a Recorder: has the server serve the stream, and keeps what passes.
  static void serve(void *recorder, const mebp_transport *stream, const char *identity);
  // Since this was asked the last time.
  std::vector<RecordedFrame> take();

private:
  struct Tap;
  void keep(bool isFromDevice, const void *head, size_t headBytes, const void *body, size_t bodyBytes);

  mebp_server *server;
  std::mutex mutex;
  std::vector<RecordedFrame> frames;
};

} // namespace mebp::python
