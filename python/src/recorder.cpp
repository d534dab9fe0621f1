// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <utility>

namespace mebp::python {

// The server's end of one stream.
struct Recorder::Tap {
  Recorder &recorder;
  const mebp_transport &stream;

  static mebp_code send(void *user, const void *head, size_t headBytes, const void *body, size_t bodyBytes,
                        mebp_error *error) {
    const auto &tap = *static_cast<const Tap *>(user);
    tap.recorder.keep(false, head, headBytes, body, bodyBytes);
    return tap.stream.send(tap.stream.user, head, headBytes, body, bodyBytes, error);
  }

  static mebp_code receive(void *user, void *head, size_t headBytes, void *body, size_t bodyCapacity, size_t *bodyBytes,
                           uint32_t timeoutMs, mebp_error *error) {
    const auto &tap = *static_cast<const Tap *>(user);
    const mebp_code code =
        tap.stream.receive(tap.stream.user, head, headBytes, body, bodyCapacity, bodyBytes, timeoutMs, error);
    if (code == MEBP_OK)
      tap.recorder.keep(true, head, headBytes, body, *bodyBytes);
    return code;
  }

  static void close(void *user) {
    const auto &tap = *static_cast<const Tap *>(user);
    tap.stream.close(tap.stream.user);
  }
};

void Recorder::serve(void *user, const mebp_transport *stream, const char *identity) {
  auto &recorder = *static_cast<Recorder *>(user);
  Tap tap = {recorder, *stream};
  mebp_transport tapped = *stream;
  tapped.user = &tap;
  tapped.send = &Tap::send;
  tapped.receive = &Tap::receive;
  tapped.close = &Tap::close;
  mebp_server_serve(recorder.server, &tapped, identity);
}

std::vector<RecordedFrame> Recorder::take() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(frames, {});
}

void Recorder::keep(bool isFromDevice, const void *head, size_t headBytes, const void *body, size_t bodyBytes) {
  std::lock_guard<std::mutex> lock(mutex);
  frames.push_back({isFromDevice, std::string(static_cast<const char *>(head), headBytes),
                    std::string(static_cast<const char *>(body), bodyBytes)});
}

} // namespace mebp::python
