// SPDX-License-Identifier: Apache-2.0
#include "runtime/net/grpc/options.h"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include <grpc/impl/codegen/grpc_types.h>
#include <grpc/support/log.h>

#include "runtime/core/edge.h"

namespace mebp::net {

static Status checkFiles(const mebp_grpc_options &given, Role role) {
  if (given.plain_text) {
    if (given.certificate || given.key || given.authority)
      return failure(MEBP_INVALID_ARGUMENT, "plain text takes no certificates; leave out one or the other");
    return Status();
  }
  if (!given.authority)
    return failure(MEBP_INVALID_ARGUMENT, "no authority is given whose certificates are right; name the other side's "
                                          "ca.pem, which mebp certs DIR makes for trials");
  if (!given.certificate != !given.key)
    return failure(MEBP_INVALID_ARGUMENT, "a certificate and its key go together; give both");
  if (role == Role::Server && !given.certificate)
    return failure(MEBP_INVALID_ARGUMENT, "a server needs a certificate and its key; mebp certs DIR makes them for "
                                          "trials");
  return Status();
}

Result<Options> readOptions(const mebp_grpc_options *given, Role role) {
  mebp_grpc_options own;
  mebp_grpc_options_init(&own);
  if (Status status = readSized("mebp_grpc_options", given, own); !status.ok())
    return status;
  if (!own.address)
    return failure(MEBP_INVALID_ARGUMENT, "no address is given; write HOST:PORT");
  if (own.frame_bytes < 1 || own.frame_bytes > INT_MAX / 4)
    return failure(MEBP_INVALID_ARGUMENT, "frame_bytes is %llu; give the largest frame's size, from 1 to %d",
                   static_cast<unsigned long long>(own.frame_bytes), INT_MAX / 4);
  if (own.frames < 1 || own.silence_ms < 1 || own.streams < 1)
    return failure(MEBP_INVALID_ARGUMENT, "frames, silence_ms and streams have to be at least 1");
  Result<Address> address = parseAddress(own.address);
  if (!address.ok())
    return address.status();
  if (Status status = checkFiles(own, role); !status.ok())
    return status;
  Options options;
  options.address = std::move(*address);
  options.plainText = own.plain_text;
  if (own.plain_text) {
    if (Status status = checkLoopback(options.address, role == Role::Server); !status.ok())
      return status;
  } else {
    Result<Credentials> credentials = readCredentials(own.certificate, own.key, own.authority);
    if (!credentials.ok())
      return credentials.status();
    options.credentials = std::move(*credentials);
  }
  options.serverName = own.server_name ? own.server_name : "";
  options.limits = {static_cast<size_t>(own.frame_bytes), own.frames, own.silence_ms};
  options.streams = own.streams;
  return options;
}

std::vector<Argument> commonArguments(const StreamLimits &limits) {
  const int silence = static_cast<int>(std::clamp<uint32_t>(limits.silenceMs, 2, INT_MAX));
  const double window = static_cast<double>(limits.frames) * static_cast<double>(limits.frameBytes + 64);
  return {
      {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(limits.frameBytes)},
      {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, static_cast<int>(limits.frameBytes)},
      // As many frames as may be under way, and not what gRPC would find out by and by: a frame that is longer than
      // the window costs a round trip.
      {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(std::clamp(window, 65'536.0, INT_MAX / 2.0))},
      {GRPC_ARG_HTTP2_BDP_PROBE, 0},
      // The answer may wait behind all that is under way on a slow line, so it has the whole time.
      {GRPC_ARG_KEEPALIVE_TIME_MS, silence / 2},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
      // Nothing is compressed, and nothing compressed is taken: 1 is the set of no method.
      {GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM, 0},
      {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1},
      {GRPC_ARG_ENABLE_RETRIES, 0},
      {GRPC_ARG_MAX_METADATA_SIZE, 4096},
  };
}

static void ignoreLine(gpr_log_func_args *) {}

void silenceGrpc() {
  static const bool done = [] {
    if (!std::getenv("GRPC_VERBOSITY"))
      gpr_set_log_function(ignoreLine);
    return true;
  }();
  (void)done;
}

} // namespace mebp::net
