// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/net/grpc/options.h"

namespace mebp::net {

// Why no stream to this server could be opened: gRPC only says that it is unavailable. Goes the way once more, step by
// step, with the system's sockets and OpenSSL, until something fails. `otherwise` where nothing does.
Status diagnose(const Options &options, Clock::time_point deadline, Status otherwise);

} // namespace mebp::net
