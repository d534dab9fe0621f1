// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/other_half.h"

#include "runtime/train/options.h"

namespace mebp {

Status OtherHalf::open(const format::Bundle &bundle, const mebp_session_options &given, const Backend &running,
                       const layout::Layout &layout, unsigned char *memory) {
  settings = &given;
  backend = &running;
  if (!bundle.has_split())
    return Status();
  StreamTimes times;
  times.retryMs = settings->retry_ms ? settings->retry_ms : times.retryMs;
  const bool isDevice = bundle.split().place() == format::Split::DEVICE;
  if (isDevice && !settings->transport)
    return Status();
  format::Hello hello;
  hello.pair = bundle.split().pair();
  hello.setFamily(backend->kernels());
  for (uint32_t i = 0; i < lanes.size(); ++i) {
    auto exchange = std::make_unique<Exchange>();
    exchange->create(bundle, memory + layout.laneOf(i) + layout.lane.wire, times, flight);
    lanes[i].exchange = std::move(exchange);
    ReliableStream &stream = lanes[i].exchange->stream;
    if (isDevice)
      if (Status status = stream.open(i ? *settings->further_transports[i - 1] : *settings->transport, hello);
          !status.ok())
        return status;
  }
  if (isDevice)
    tellOfKernels();
  return Status();
}

// The server's are those of another machine, and after a restart perhaps others than before.
void OtherHalf::tellOfKernels() {
  const std::string &theirs = lanes.front().exchange->stream.peerKernels();
  if (theirs == serverKernels)
    return;
  serverKernels = theirs;
  if (theirs != backend->kernels())
    mebp::log(*settings, MEBP_LOG_WARNING,
              textOf("the server runs %s kernels and this device %s ones, so results may differ by rounding "
                     "from those of one process; MEBP_KERNELS names others",
                     theirs.c_str(), backend->kernels()));
}

void OtherHalf::begin() {
  for (Lane &own : lanes)
    if (own.exchange)
      own.exchange->stream.beginCall();
}

// And whether the call can be made once more with the same outcome: MeZO has moved parameters and moved them back by
// then, which rounds.
bool OtherHalf::hasLostServer(Status &status, uint32_t restarts) {
  bool hasLost = false;
  for (const Lane &own : lanes)
    hasLost |= own.exchange && own.exchange->isDevice() && own.exchange->stream.hasLost();
  if (!hasLost || status.code() != MEBP_DISCONNECTED)
    return false;
  tellOfKernels();
  constexpr uint32_t most = 10;
  if (restarts > most)
    status = failure(MEBP_DISCONNECTED,
                     "the server has been started again %u times during one call and has never finished it; see there "
                     "why it ends",
                     restarts);
  if (restarts > most || settings->optimizer == MEBP_MEZO)
    return false;
  end(status);
  begin();
  return true;
}

// A server that has heard of half a call waits for the rest, which never comes: the next call has another session. One
// that was started again has it already.
void OtherHalf::end(const Status &status) {
  for (Lane &own : lanes)
    if (own.exchange && own.exchange->isDevice() && !status.ok() && own.exchange->stream.hasSpoken &&
        !own.exchange->stream.hasLost())
      own.exchange->stream.abandon();
}

mebp_session_crossed OtherHalf::countCrossed() const {
  mebp_session_crossed all = {};
  all.size = sizeof(all);
  for (const Lane &own : lanes) {
    if (!own.exchange)
      continue;
    const ReliableStream &stream = own.exchange->stream;
    all.sent_bytes += stream.payloadBytes[0];
    all.received_bytes += stream.payloadBytes[1];
    all.sent_messages += stream.messages[0];
    all.received_messages += stream.messages[1];
  }
  return all;
}

} // namespace mebp
